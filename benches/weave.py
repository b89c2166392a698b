"""Recording on the running kernel by `xweave record`, for benchmarks: at functions' entries if the kernel lets them be
hooked, else at tracepoints."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time


def compiler():
    names = ['clang', *(f'clang-{version}' for version in range(14, 22))]
    found = os.environ.get('XWEAVE_CLANG') or next(filter(None, map(shutil.which, names)), None)
    return found or sys.exit('bench: there is no clang: make setup')


class Kernel:
    """The running kernel: how it can be woven into. FOLDER is for temporary files."""

    def __init__(self, bench, xweave, folder, entry_aspect):
        self.bench, self.xweave, self.folder = bench, xweave, pathlib.Path(folder)
        self.environment = os.environ.copy()
        with open('/proc/kallsyms') as symbols:
            whole = any(line.split()[2] == 'this_cpu_off' for line in symbols)
        if not whole:
            # Objects that are compiled so are for nobody else: they are kept apart.
            clang = self.folder / 'clang'
            clang.write_text(f'#!/bin/sh\nexec {compiler()} -DXW_WITHOUT_SYMBOLS "$@"\n')
            clang.chmod(0o755)
            # xweave runs it as another user.
            self.folder.chmod(0o711)
            self.environment |= {'XWEAVE_CLANG': str(clang), 'XWEAVE_CACHE': str(self.folder / 'cache')}
            print('The kernel has no symbols of per-CPU data (CONFIG_KALLSYMS_ALL): what advice and its spares read of it is not there.')
        tried = subprocess.run([xweave, 'record', '-e', entry_aspect, '-o', self.folder / 'tried', '--force', '--duration',
                                '1ms'], env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.hook = 'tracepoint' if tried.returncode else 'entry'
        if tried.returncode:
            reason = re.search(r'could not (load|attach).*', tried.stderr)
            if not reason:
                sys.exit(f'{bench}: nothing could be recorded:\n{tried.stderr}')
            print(f'No function can be hooked here, so tracepoints are ({reason[0]}).')
        sys.stdout.flush()

    def record(self, aspect):
        return Recording(self, aspect)


class Recording:
    """An aspect, woven until it is stopped."""

    def __init__(self, kernel, aspect):
        self.kernel = kernel
        self.log = open(kernel.folder / 'record.log', 'w+')
        # It lasts as long as its command, and this cat as long as its standard input.
        self.process = subprocess.Popen(
            [kernel.xweave, 'record', '-e', aspect, '-o', kernel.folder / 'trace', '--force', '--json', '--buffer', '128M',
             '--', 'sh', '-c', 'echo woven >&2; exec cat'], env=kernel.environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self.log, text=True)
        deadline = time.monotonic() + 60
        while '\nwoven' not in self.said():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                sys.exit(f'{kernel.bench}: this could not be recorded:\n{aspect}\n{self.said()}')
            time.sleep(0.01)

    def said(self):
        self.log.seek(0)
        return '\n' + self.log.read()

    def stop(self):
        """What `xweave record --json` prints."""
        out, _ = self.process.communicate()
        if self.process.returncode:
            sys.exit(f'{self.kernel.bench}: the recording failed: {self.said()}')
        self.log.close()
        return json.loads(out)
