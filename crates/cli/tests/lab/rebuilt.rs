//! The second guest, built otherwise than the lab builds it.

use crate::world::World;

/// The lab's script in the host that starts a guest.
const LAB_SCRIPT: &str = "/run/lab/host-guest.sh";

/// That; the usual one comes back with the end of this.
pub struct Rebuilt<'w>(&'w World);

impl<'w> Rebuilt<'w> {
    /// By the lab's script for guests, edited by these commands of sed.
    pub fn new(world: &'w World, edit: &str) -> Self {
        world.write("host", "/tmp/rebuilt.sed", edit);
        world.run("host", &format!("sed -f /tmp/rebuilt.sed {LAB_SCRIPT} >/tmp/rebuilt.sh"));
        world.guests_restart();
        let rebuilt = Self(world);
        rebuilt.start("/tmp/rebuilt.sh");
        rebuilt
    }

    fn start(&self, script: &str) {
        self.0.run("host", &replace_by(script));
        self.0.until("vm2", "true");
    }
}

impl Drop for Rebuilt<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // A second failure would end the tests that follow.
            self.0.try_run("host", &replace_by(LAB_SCRIPT));
        } else {
            self.start(LAB_SCRIPT);
        }
    }
}

/// Makes a command that ends the second guest's QEMU and starts another as a script does.
fn replace_by(script: &str) -> String {
    format!(
        "pid=$(cat /run/lab/vm2/pid) && kill $pid && while [ -e /proc/$pid ]; do sleep 0.1; done
         sh {script} 2"
    )
}
