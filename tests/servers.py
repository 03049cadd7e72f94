"""A PostgreSQL server of the tests' own, on a socket in a folder of theirs.

`python tests/servers.py SCRIPT ARGUMENTS` runs a script with the URL of a new database as its last
argument.
"""

import glob
import os
import pwd
import shutil
import subprocess
import sys
import tempfile


class Server:
    """A server that is started by `start` and ended by `stop`; `url(name)` makes a database."""

    def __init__(self):
        (self.programs,) = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1:] or [None]
        if self.programs is None:
            raise FileNotFoundError("no PostgreSQL here: apt-get install postgresql")
        self.folder = tempfile.mkdtemp(prefix="zooming-pg-")
        self.user = None
        if os.geteuid() == 0:  # the server refuses to run as root
            self.user = "postgres" if _exists("postgres") else "nobody"
            shutil.chown(self.folder, self.user)
        self.data = os.path.join(self.folder, "data")
        self.call("initdb", "-D", self.data, "-A", "trust", "-U", "desk", "--no-sync")

    def call(self, program, *arguments):
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
        subprocess.run(
            [os.path.join(self.programs, program), *arguments], user=self.user, cwd=self.folder,
            env=environment, check=True, capture_output=True, timeout=120,
        )  # fmt: skip

    def start(self):
        options = f"-c listen_addresses= -c unix_socket_directories={self.folder} -c port=5999"
        log = os.path.join(self.folder, "log")
        self.call("pg_ctl", "-D", self.data, "-l", log, "-w", "-o", options, "start")

    def stop(self, mode="fast"):
        self.call("pg_ctl", "-D", self.data, "-w", "-m", mode, "stop")

    def url(self, name):
        self.call("createdb", "-h", self.folder, "-p", "5999", "-U", "desk", name)
        return f"postgresql://desk@/{name}?host={self.folder}&port=5999"

    def remove(self):
        self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)


def _exists(user):
    try:
        return bool(pwd.getpwnam(user))
    except KeyError:
        return False


if __name__ == "__main__":
    server = Server()
    try:
        server.start()
        sys.exit(subprocess.call([sys.executable, *sys.argv[1:], server.url("desk")]))
    finally:
        server.remove()
