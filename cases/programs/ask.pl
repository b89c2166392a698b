#!/usr/bin/perl
# ask.pl redis PORT BATCHES COMMANDS LOOPS   COMMANDS at once, before an answer is read; each is a loop of LOOPS
# ask.pl http PORT REQUESTS                  one after the other, on one connection
#
# Prints the client's port. Perl alone, which every Debian has.
use strict;
use warnings;
use Socket;

my ($how, $port, $times, $commands, $loops) = @ARGV;
socket(my $server, PF_INET, SOCK_STREAM, 0) or die "socket: $!";
setsockopt($server, Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1) or die "setsockopt: $!";
connect($server, sockaddr_in($port, inet_aton('127.0.0.1'))) or die "connect: $!";
print +(sockaddr_in(getsockname($server)))[0], "\n";

my $read = '';

sub ask {
    my ($text) = @_;
    my $sent = syswrite($server, $text);
    die 'write: ' . ($! // 'short') unless defined $sent && $sent == length $text;
}

# Reads until what has been read matches, and takes that away.
sub answer {
    my ($pattern) = @_;
    until ($read =~ s/$pattern//) {
        sysread($server, $read, 65536, length $read) or die 'read: ' . ($! || 'closed');
    }
}

for my $nth (1 .. $times) {
    if ($how eq 'redis') {
        my $script = "local x = 0 for i = 1, $loops do x = x + i end return x";
        my $length = length $script;
        ask("*3\r\n\$4\r\nEVAL\r\n\$$length\r\n$script\r\n\$1\r\n0\r\n" x $commands);
        answer(qr/^(?::\d+\r\n){$commands}/);
    } else {
        ask("GET / HTTP/1.1\r\nHost: here\r\n\r\n");
        answer(qr/^HTTP.*?\r\n\r\n[0-9a-f]{64}\n/s);
    }
}
