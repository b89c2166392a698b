# Moves a running guest to another QEMU process of this host, by live migration, and ends the process of before.
# In the host: migrate.pl vm1
#
# Its vsock device does not go with it, as two processes cannot have the same CID at once: it is unplugged before, and
# plugged in again afterwards.
use strict;
use warnings;
use IO::Socket::UNIX;

my ($guest) = @ARGV;
my ($number) = $guest =~ /^vm(\d+)$/ or die "no guest: $guest";
my $dir = "/run/lab/$guest";
alarm 300;

# What each monitor has said.
my %said;

sub monitor {
    my $monitor = IO::Socket::UNIX->new(Peer => $_[0]) or die "no monitor $_[0]: $!";
    ask($monitor, '{"execute": "qmp_capabilities"}');
    return $monitor;
}

# Reads on until that has been said, since `$from`.
sub heard {
    my ($monitor, $wanted, $from) = @_;
    until (substr($said{$monitor} //= "", $from) =~ /$wanted/) {
        my $line = <$monitor> // die "QEMU ended before it said $wanted: $said{$monitor}";
        $said{$monitor} .= $line;
    }
}

# Events may come before the answer.
sub ask {
    my ($monitor, $command) = @_;
    my $from = length($said{$monitor} // "");
    syswrite $monitor, "$command\n";
    heard($monitor, '"(return|error)":', $from);
    my $answer = substr $said{$monitor}, $from;
    die "QEMU refused $command: $answer" if $answer =~ /"error":/;
    return $answer;
}

sub content { open my $file, "<", $_[0] or die "$_[0]: $!"; local $/; return <$file> }

my $old = monitor("$dir/qmp.sock");
chomp(my $pid = content("$dir/pid"));
my $devices = '/machine/peripheral-anon';
my ($vsock) = ask($old, qq({"execute": "qom-list", "arguments": {"path": "$devices"}}))
    =~ /"name": "([^"]*)", "type": "child<vhost-vsock-pci>"/ or die "no vsock device";
ask($old, qq({"execute": "device_del", "arguments": {"id": "$devices/$vsock"}}));
heard($old, qq("DEVICE_DELETED".*"\Q$devices/$vsock\E"), 0);

# The same command line, but for names that are taken until the other has ended. It deletes its own when it does.
my $script = content("/run/lab/host-guest.sh");
$script =~ s/\$dir\/pid/\$dir\/pid.$$/ or die;
$script =~ s/qmp\.sock/qmp.$$.sock/ or die;
$script =~ s/-device "vhost-vsock-pci,(guest-cid=[^"]*)"/-global "vhost-vsock-pci.$1" -incoming "unix:\$dir\/$$"/ or die;
open my $file, ">", "$dir/incoming.sh" or die $!;
print $file $script;
close $file or die $!;
system("sh", "$dir/incoming.sh", $number) == 0 or die content("$dir/start.err");
my $new = monitor("$dir/qmp.$$.sock");
ask($old, qq({"execute": "migrate", "arguments": {"uri": "unix:$dir/$$"}}));
heard($new, '"RESUME"', 0);
ask($old, '{"execute": "quit"}');
select undef, undef, undef, 0.05 while -e "/proc/$pid";
for (["pid.$$", "pid"], ["qmp.$$.sock", "qmp.sock"]) {
    rename "$dir/$$_[0]", "$dir/$$_[1]" or die "$$_[1]: $!";
}
ask($new, '{"execute": "device_add", "arguments": {"driver": "vhost-vsock-pci"}}');
