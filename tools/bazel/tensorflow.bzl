"""The TensorFlow that a Python has installed, as a Bazel repository."""

_BUILD = """
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "headers",
    hdrs = glob(["include/**"]),
    includes = ["include"],
)

cc_import(
    name = "framework_import",
    shared_library = "libtensorflow_framework.so.2",
)

cc_library(
    name = "framework",
    deps = [":framework_import", ":headers"],
)

cc_import(
    name = "cc_import",
    shared_library = "libtensorflow_cc.so.2",
)

# TensorFlow's own ops and kernels, too.
cc_library(
    name = "cc",
    deps = [":cc_import", ":framework"],
)

cc_library(
    name = "pybind11",
    hdrs = glob(["pybind11/**", "python/**"]),
    defines = ['TENSORBOW_TENSORFLOW_VERSION=\\\\"{version}\\\\"'],
    includes = ["pybind11", "python"],
)
"""

def _impl(context):
    python = context.os.environ.get("PYTHON_BIN_PATH") or context.which("python3")
    result = context.execute([python, context.path(context.attr._flags)])
    if result.return_code != 0:
        fail("No TensorFlow for %s: %s" % (python, result.stderr))
    paths = result.stdout.strip().split(";")
    context.symlink(paths[0], "include")
    context.symlink(paths[1], "libtensorflow_framework.so.2")
    library_dir = context.path(paths[1]).dirname
    context.symlink(library_dir.get_child("libtensorflow_cc.so.2"), "libtensorflow_cc.so.2")
    context.symlink(paths[2], "pybind11")
    include = context.execute([python, "-c", "import sysconfig; print(sysconfig.get_path('include'))"])
    context.symlink(include.stdout.strip(), "python")
    context.file("BUILD", _BUILD.replace("{version}", paths[3]))

installed_tensorflow = repository_rule(
    implementation = _impl,
    attrs = {"_flags": attr.label(default = "//tools:tensorflow_flags.py", allow_single_file = True)},
    environ = ["PYTHON_BIN_PATH"],
    local = True,
)
