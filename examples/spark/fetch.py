#!/usr/bin/env python3
"""Gets what `spark-memory` needs of Spark, and compiles its Java classes.

Needs pip, javac 17 or later, and 600 MB of disk for a minute. What it keeps are 51 MB in the
user's cache folder: $XDG_CACHE_HOME or ~/.cache, datafusion-counting-pool/spark-4.1.3/. Running
it again checks what is there and does what is missing. To get rid of it, delete that folder.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

SPARK = "4.1.3"
# Spark's jars come with pyspark's source distribution.
SDIST = f"pyspark=={SPARK} --hash=sha256:b600238e771e45618a58beaf9d63cfd9aa06f61ce193244cedf890a04a4409f7"
# The jackson jars and paranamer are for Spark's own error classes, which fail to load without.
JARS = {
    "hadoop-client-api-3.4.2.jar":
        "607c0299f4df33013bd0a0f37c8cf255c635bbaddd247b8fec68c210cc17d19f",
    "ivy-2.5.3.jar":
        "9502aa5aabf0b1484924a13ef4b5d24f121f7f91aab6768f11cc9d0906c0803b",
    "jackson-annotations-2.21.jar":
        "53ca085f4a150f703f49e1aabd935bd03b43e1ea3d55d135438292af22cef56b",
    "jackson-core-2.21.2.jar":
        "12e8655b100267b44d0f14d01b1f5082a5105e616174dc4307be1a761e92407b",
    "jackson-databind-2.21.2.jar":
        "8c982f01f148d805f0aaac2339011244757e0df7c6ff8951f2fa3f433b8ed849",
    "jackson-dataformat-yaml-2.21.2.jar":
        "d25551812fa0c14f37cabaa9401e63eadcea42ce36311183af5622d5bc8a1bc7",
    "jackson-datatype-jsr310-2.21.2.jar":
        "a083d57cd1c4a28fefcc6bd071740779eb7fc1c22a3c1b40451b5477c443f02f",
    "jackson-module-scala_2.13-2.21.2.jar":
        "24f56b094ae46ab4005ac703a1be14be72dd8f0d81111508fc6e35163f251452",
    "log4j-api-2.24.3.jar":
        "5b4a0a0cd0e751ded431c162442bdbdd53328d1f8bb2bae5fc1bbeee0f66d80f",
    "log4j-core-2.24.3.jar":
        "7eb4084596ae25bd3c61698e48e8d0ab65a9260758884ed5cbb9c6e55c44a56a",
    "paranamer-2.8.3.jar":
        "a9df136f2e926b37a838a5b4e2227343c3a755d15724b3a8350b4aea4b158945",
    "scala-library-2.13.17.jar":
        "b7822c4225243215f185925724a6edff92cf18777a136cc738276c4446fac76c",
    "slf4j-api-2.0.17.jar":
        "7b751d952061954d5abfed7181c1f645d336091b679891591d63329c622eb832",
    "spark-common-utils-java_2.13-4.1.3.jar":
        "7f577a7dbcdd2c607e25f73e73484e4cb155ccbd0de317acb6e5da3c2aa538a3",
    "spark-common-utils_2.13-4.1.3.jar":
        "7bc022ba63c138a2dd90f7ec3bafc3ea0a0d64e889200b5d33da5258da22c8db",
    "spark-core_2.13-4.1.3.jar":
        "58fbfa658531cbfb018f6bba6b5ba64e30fa3be5100d811c6eb372ff1c146c4d",
    "spark-network-common_2.13-4.1.3.jar":
        "3023db861885b8eea279d783a551945707db074d0aa1321788610f18e8c6902e",
    "spark-network-shuffle_2.13-4.1.3.jar":
        "0f0957790ac90605ac8f30ddaf208f6c9dbaf539f1247137e32f747a629379a2",
    "spark-unsafe_2.13-4.1.3.jar":
        "71e8a07f57a1e79b428cf3dee5559f42233a1ee558ef72a56671f8ae2a9d24d8",
}

SOURCES = Path(__file__).resolve().parent / "java"
CACHE = (
    Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    / "datafusion-counting-pool"
    / f"spark-{SPARK}"
)


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def missing_jars(folder):
    return {name for name, digest in JARS.items()
            if not (folder / name).is_file() or sha256(folder / name) != digest}


def fetch_jars(folder):
    """Has pip download and check the source distribution, and keeps the jars out of it."""
    missing = missing_jars(folder)
    if not missing:
        print(f"The {len(JARS)} jars of Spark {SPARK} are in {folder}, unchanged.")
        return
    print(f"Downloading Spark {SPARK} (455 MB) for {len(missing)} of its jars to {folder} ...", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        requirements = Path(scratch, "requirements.txt")
        requirements.write_text(SDIST + "\n")
        run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir",
            "--require-hashes", "--requirement", str(requirements), "--dest", scratch)
        (sdist,) = Path(scratch).glob("pyspark-*.tar.gz")
        print("Unpacking ...", flush=True)
        with tarfile.open(sdist, "r|gz") as archive:
            for member in archive:
                name = Path(member.name).name
                if name in missing and Path(member.name).parent.name == "jars":
                    part = Path(scratch, name)
                    with archive.extractfile(member) as source, open(part, "wb") as target:
                        shutil.copyfileobj(source, target)
                    os.replace(part, folder / name)
    if still_missing := missing_jars(folder):
        raise SystemExit(f"error: not as expected: {', '.join(sorted(still_missing))}")


def compile_classes(jars):
    """Compiles the Java sources, and keeps them beside the classes to tell whether they are current."""
    sources = sorted(SOURCES.rglob("*.java"))
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.read_bytes())
    classes = CACHE / f"classes-{digest.hexdigest()[:16]}"
    if classes.is_dir():
        print(f"The classes in {classes} are current.")
        return classes
    home = os.environ.get("JAVA_HOME")
    javac = shutil.which("javac", path=str(Path(home, "bin"))) if home else shutil.which("javac")
    if javac is None:
        raise SystemExit("error: no javac: install a JDK of version 17 or later, or set JAVA_HOME to one")
    print(f"Compiling {len(sources)} Java sources to {classes} ...", flush=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        new = Path(scratch, "classes")
        run(javac, "--release", "17", "-proc:none", "-d", str(new),
            "-classpath", os.pathsep.join(map(str, jars)), *map(str, sources))
        for source in sources:
            shutil.copy(source, new / source.relative_to(SOURCES))
        try:
            new.rename(classes)
        except OSError:
            # Somebody else was faster.
            if not classes.is_dir():
                raise
    return classes


def run(*command):
    try:
        subprocess.run(command, check=True)
    except subprocess.CalledProcessError as failure:
        raise SystemExit(f"error: {Path(command[0]).name} failed with exit code {failure.returncode}")


def main():
    CACHE.mkdir(parents=True, exist_ok=True)
    folder = CACHE / "jars"
    fetch_jars(folder)
    jars = [folder / name for name in JARS]
    classes = compile_classes(jars)
    class_path = CACHE / "classpath"
    part = CACHE / f"classpath.{os.getpid()}"
    part.write_text(os.pathsep.join(map(str, [classes, *jars])))
    os.replace(part, class_path)
    print(f"The class path is in {class_path}.")


if __name__ == "__main__":
    main()
