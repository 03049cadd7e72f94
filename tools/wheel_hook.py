"""Build hook of hatchling: a wheel with compiled kernels is of one platform and one Python."""

import sys
import sysconfig
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMPILED = "src/zooming/kernels/compiled"


class CompiledKernels(BuildHookInterface):
    """Adds the kernels that `zooming warm` compiled, if there are any."""

    def initialize(self, version, build_data):
        if version == "editable" or not any(Path(self.root, COMPILED).glob("*/*.nbc")):
            return
        python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"{python}-{python}-{platform}"
        build_data["artifacts"] += [f"{COMPILED}/*/*.nbc", f"{COMPILED}/*/*.nbi"]
