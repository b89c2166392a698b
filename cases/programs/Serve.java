import java.io.DataInputStream;
import java.io.FileWriter;
import java.io.IOException;
import java.io.Writer;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * A server that logs what it does, as the truth for who explains it: {@code java Serve PORT LOG} answers requests of
 * {@code xweave lab load tcp-get}. A thread for each connection reads them, and three of a pool answer them.
 *
 * A line of LOG is a request: who asked, which threads read it and answered it, and when (CLOCK_MONOTONIC, nanoseconds,
 * which is what System.nanoTime is on Linux).
 */
public final class Serve {
    private static final int ROUNDS = 40;
    private static final ThreadLocal<Long> THREAD = ThreadLocal.withInitial(Serve::thread);
    private static Writer log;

    /** The kernel's number of the calling thread. */
    private static long thread() {
        try {
            return Long.parseLong(Files.readString(Path.of("/proc/thread-self/stat")).split(" ", 2)[0]);
        } catch (IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    private static void work() throws Exception {
        byte[] block = new byte[4096];
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        for (int round = 0; round < ROUNDS; round++) {
            byte[] sum = digest.digest(block);
            System.arraycopy(sum, 0, block, 0, sum.length);
        }
    }

    private static void answer(Socket client, int size, long reader, long received) {
        long begun = System.nanoTime();
        long worker = THREAD.get();
        try {
            work();
            long answered = System.nanoTime();
            client.getOutputStream().write(new byte[size]);
            synchronized (log) {
                log.write(String.format(
                        "{\"client\":%d,\"reader\":%d,\"workers\":[%d],\"received\":%d,\"begun\":%d,\"answered\":%d}%n",
                        client.getPort(), reader, worker, received, begun, answered));
                log.flush();
            }
        } catch (IOException gone) {
            // A client that goes away ends nothing but its own answer.
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private static void read(Socket client, ExecutorService workers) {
        try (client) {
            client.setTcpNoDelay(true);
            DataInputStream in = new DataInputStream(client.getInputStream());
            while (true) {
                int size = Integer.reverseBytes(in.readInt());
                int answer = Integer.reverseBytes(in.readInt());
                in.readFully(new byte[size - 8]);
                long received = System.nanoTime();
                long reader = THREAD.get();
                workers.execute(() -> answer(client, answer, reader, received));
            }
        } catch (IOException gone) {
            // As above.
        }
    }

    public static void main(String[] arguments) throws Exception {
        log = new FileWriter(arguments[1]);
        ExecutorService workers = Executors.newFixedThreadPool(3);
        try (ServerSocket listener = new ServerSocket(Integer.parseInt(arguments[0]))) {
            while (true) {
                Socket client = listener.accept();
                new Thread(() -> read(client, workers)).start();
            }
        }
    }
}
