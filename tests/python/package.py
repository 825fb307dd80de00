"""The package as a user has it: installed, never the tree.

With TEST_PACKAGE=wheel (tools/test says so) `pip wheel` builds it and a new virtual environment gets it; else `meson
install` puts what the build folder has below a temporary folder. In both cases what is there is compared with the
folder of sources, and every module is compiled."""

import compileall
import contextlib
import fcntl
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "project"))
import check_lists  # noqa: E402

ALLOWED = re.compile(r"(libc|libm|libdl|librt|libpthread|ld-linux-.*)\.so")
# The library's own build optimises; the same code compiles in half the time without.
SETUP = ["-Doptimization=0", "-Ddebug=false"]
SOURCES = ("src", "include", "tools/mdctl", "meson.build", "pyproject.toml", "meson_options.txt", "data/ops")


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, check=False, **options)
    if done.returncode:
        sys.exit(f"{' '.join(str(c) for c in command)} failed:\n{done.stdout[-6000:]}")
    return done.stdout


def newest_source():
    files = [p for s in SOURCES for p in ([ROOT / s] if (ROOT / s).is_file() else (ROOT / s).rglob("*"))]
    return max(p.stat().st_mtime for p in files if p.is_file() and "__pycache__" not in p.parts)


def check(site):
    """What is wrong with an installed package: files, libraries, symbols, modules that are no Python."""
    package = site / "multidispatch"
    problems = check_lists.compare_package(ROOT, package)
    core = package / "_core.abi3.so"
    needed = re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", core))
    exported = [line.split()[-1] for line in run("nm", "-D", "--defined-only", core).splitlines()]
    if exported != ["PyInit__core"]:
        problems.append(f"{core.name} exports {exported}")
    if not compileall.compile_dir(package, quiet=1):
        problems.append(f"{package}: a module is no Python")
    return problems, needed


def check_alone(site, mdctl):
    """A wheel needs no library but those of the C library, and holds nothing else."""
    problems, needed = check(site)
    needed += re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", mdctl))
    problems += [f"needs {name}" for name in sorted(set(needed)) if not ALLOWED.match(name)]
    problems += [f"{path} is in the wheel" for path in site.iterdir() if not path.name.startswith("multidispatch")]
    return problems


def build_wheel(folder):
    """Below the folder: tools with pip, the wheel's own build folder, the wheel. None where meson-python is out of reach."""
    tools = folder / "tools"
    if not (tools / "bin" / "python").exists():
        venv.create(tools, with_pip=True)
    for old in folder.glob("*.whl"):
        old.unlink()
    options = [f"-Csetup-args={word}" for word in SETUP] + [f"-Cbuild-dir={folder / 'build'}"]
    done = subprocess.run([tools / "bin" / "python", "-m", "pip", "wheel", "--no-deps", "-w", folder, *options, ROOT],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False)
    if done.returncode and re.search(r"No matching distribution found|Could not find a version|NewConnectionError|"
                                     r"Temporary failure in name resolution", done.stdout):
        print(f"THE WHEEL IS NOT TESTED: meson-python cannot be had here:\n{done.stdout[-1000:]}\n"
              "`meson install` of the build folder is tested instead.", flush=True)
        return None
    if done.returncode:
        sys.exit(f"pip wheel failed:\n{done.stdout[-6000:]}")
    return next(folder.glob("*.whl"))


def install_wheel(folder, wheel):
    """A new virtual environment with the wheel alone: its folder of packages."""
    clean = folder / "clean"
    shutil.rmtree(clean, ignore_errors=True)
    venv.create(clean, with_pip=False)
    run(folder / "tools" / "bin" / "python", "-m", "pip", "--python", clean / "bin" / "python", "install", "--no-deps",
        "--no-index", wheel)
    site = next((clean / "lib").glob("python3.*/site-packages"))
    problems = check_alone(site, clean / "bin" / "mdctl")
    said = run(clean / "bin" / "python", "-c", "import multidispatch as md; print(md.op('softmax').formula)",
               env={"MD_CACHE_DIR": ""}, cwd=folder)
    counted = run(clean / "bin" / "mdctl", "info", env={"MD_CACHE_DIR": "", "MD_DEVICE": "host", "PATH": os.environ["PATH"]})
    if problems or "exp" not in said or "version" not in counted:
        sys.exit("\n".join(["the wheel is not whole:", *problems, said, counted]))
    return site


def wheel_site(build):
    """The folder of packages of the environment with the wheel; made anew where a source is newer. None: see build_wheel."""
    folder = build / "wheel"
    folder.mkdir(exist_ok=True)
    stamp = folder / "stamp"
    with open(folder / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several tests want it at once
        newest = newest_source()
        if not stamp.exists() or stamp.stat().st_mtime < newest:
            stamp.unlink(missing_ok=True)
            wheel = build_wheel(folder)
            if not wheel:
                return None
            stamp.write_text(str(install_wheel(folder, wheel)), encoding="utf-8")
            os.utime(stamp, (newest, newest))
        return pathlib.Path(stamp.read_text(encoding="utf-8"))


@contextlib.contextmanager
def installed(build, meson):
    """Gives the folder of packages that an installed multidispatch is in: TEST_SITE where it is named."""
    if os.environ.get("TEST_SITE"):
        yield pathlib.Path(os.environ["TEST_SITE"])
        return
    site = wheel_site(build) if os.environ.get("TEST_PACKAGE") == "wheel" else None
    if site:
        print(f"with the wheel in {site}", flush=True)
        yield site
        return
    with tempfile.TemporaryDirectory() as folder:
        run(*meson, "install", "-C", build, "--no-rebuild", "--tags", "python-runtime", "--destdir", folder)
        site = check_lists.package_of(pathlib.Path(folder)).parent
        problems, _ = check(site)
        if problems:
            sys.exit("\n".join(problems))
        print("with what `meson install` installs", flush=True)
        yield site
