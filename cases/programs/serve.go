// A server whose goroutines log what they do, as the truth for who explains it.
//
//	serve queue PORT LOG    requests of `xweave lab load tcp-get`: a goroutine for each connection reads them, and three
//	                        take them from one channel
//	serve http PORT LOG     GET: Go's own HTTP server; the handler does the work
//	serve h2 PORT LOG       the same by HTTP/2, over TLS
//	serve ask PORT FILE     asks such a server: ten times, then until FILE is there not at all, then sixty times, all on
//	                        one connection
//
// A line of LOG is a request: who asked, on which threads it was read, worked for and answered, and when (CLOCK_MONOTONIC,
// nanoseconds). Goroutines move between threads as they like.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const (
	monotonic = 1
	rounds    = 40
)

var (
	lock sync.Mutex
	out  *os.File
)

func now() int64 {
	var at syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&at)), 0); errno != 0 {
		log.Fatal(errno)
	}
	return at.Nano()
}

// work takes a few milliseconds of a processor.
func work() [32]byte {
	block := make([]byte, 4096)
	for i := 0; i < rounds; i++ {
		sum := sha256.Sum256(block)
		copy(block, sum[:])
	}
	return sha256.Sum256(block)
}

func tell(client, reader, worker, answerer int, received, begun, answered int64) {
	lock.Lock()
	defer lock.Unlock()
	fmt.Fprintf(out, `{"client":%d,"reader":%d,"workers":[%d,%d],"received":%d,"begun":%d,"answered":%d}`+"\n",
		client, reader, worker, answerer, received, begun, answered)
}

type job struct {
	connection net.Conn
	answer     uint32
	reader     int
	received   int64
}

func port(of net.Addr) int { return of.(*net.TCPAddr).Port }

func read(connection net.Conn, jobs chan<- job) {
	defer connection.Close()
	header := make([]byte, 8)
	for {
		if _, err := io.ReadFull(connection, header); err != nil {
			return
		}
		rest := int64(binary.LittleEndian.Uint32(header)) - int64(len(header))
		if _, err := io.CopyN(io.Discard, connection, rest); err != nil {
			return
		}
		jobs <- job{connection, binary.LittleEndian.Uint32(header[4:]), syscall.Gettid(), now()}
	}
}

func answer(jobs <-chan job) {
	for one := range jobs {
		begun, worker := now(), syscall.Gettid()
		work()
		answered, answerer := now(), syscall.Gettid()
		if _, err := one.connection.Write(make([]byte, one.answer)); err == nil {
			tell(port(one.connection.RemoteAddr()), one.reader, worker, answerer, one.received, begun, answered)
		}
	}
}

func queue(listener net.Listener) error {
	jobs := make(chan job, 64)
	for i := 0; i < 3; i++ {
		go answer(jobs)
	}
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		go read(connection, jobs)
	}
}

func handle(writer http.ResponseWriter, request *http.Request) {
	begun, worker := now(), syscall.Gettid()
	sum := work()
	answered, answerer := now(), syscall.Gettid()
	fmt.Fprintf(writer, "%x\n", sum)
	peer, err := net.ResolveTCPAddr("tcp", request.RemoteAddr)
	if err != nil {
		log.Fatal(err)
	}
	tell(peer.Port, worker, worker, answerer, begun, begun, answered)
}

// certificate is one that nobody has to believe.
func certificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

func secure(listener net.Listener) error {
	of, err := certificate()
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(handle), TLSConfig: &tls.Config{Certificates: []tls.Certificate{of}}}
	return server.ServeTLS(listener, "", "")
}

func ask(port, file string) error {
	client := http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		ForceAttemptHTTP2: true,
	}}
	for nth := 0; nth < 70; nth++ {
		for _, err := os.Stat(file); nth == 10 && err != nil; _, err = os.Stat(file) {
			time.Sleep(50 * time.Millisecond)
		}
		answer, err := client.Get("https://127.0.0.1:" + port + "/")
		if err != nil {
			return err
		}
		if _, err = io.Copy(io.Discard, answer.Body); err != nil {
			return err
		}
		answer.Body.Close()
		if answer.ProtoMajor != 2 {
			return fmt.Errorf("answered by %s", answer.Proto)
		}
	}
	return nil
}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: serve queue|http|h2 PORT LOG, or serve ask PORT FILE")
	}
	if os.Args[1] == "ask" {
		if err := ask(os.Args[2], os.Args[3]); err != nil {
			log.Fatal(err)
		}
		return
	}
	var err error
	if out, err = os.Create(os.Args[3]); err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp4", ":"+os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	switch os.Args[1] {
	case "http":
		err = http.Serve(listener, http.HandlerFunc(handle))
	case "h2":
		err = secure(listener)
	default:
		err = queue(listener)
	}
	log.Fatal(err)
}
