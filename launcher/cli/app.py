"""The `launch` command: its table of commands, and how mistakes end.

Only this module, the command `launch` itself and the command line library are imported for `--help`; a
command's own module comes when it is called, and with it what the command needs.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import gc
import os
import signal
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Literal, TextIO

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError

from launcher.cli.interaction import EXIT_INTERRUPTED, EXIT_USAGE, message
from launcher.cli.launch import launch
from launcher.failure_modes.model import Refusal
from launcher.text import __version__

# `launch --install-completion`: the shell completes commands, options and their values.


Shell = Literal["bash", "zsh", "fish"]


def install_completion(
    *,
    shell: Annotated[Shell | None, Parameter(help="The shell; by default the one that runs this.")] = None,
) -> int:
    """Let the shell complete commands and options: writes a script, and a line into its start-up file.

    Again after an update: the script holds the commands and options of this version.
    """
    from cyclopts.completion.detect import ShellDetectionError, detect_shell

    try:
        script = app.install_completion(shell=shell or detect_shell())
    except ShellDetectionError:
        raise Refusal(
            "which shell this is cannot be seen, so that nothing was written.",
            "Name it: launch --install-completion --shell bash",
        ) from None
    except OSError as error:
        raise Refusal(
            f"the script cannot be written: {error.filename}: {error.strerror}.",
            "Make the folder writable, or do without completion.",
        ) from error
    message(f"completion was written to {script}; it works in every shell that is started from now on")
    return 0


app = App(
    name="launch",
    help="Launch distributed training on Amazon SageMaker, and refuse what would stall there.",
    # As the library would write it, which costs it a second reading of all arguments.
    usage="Usage: launch COMMAND [OPTIONS] JOB_FILE",
    help_format="plaintext",
    version=__version__,
    version_flags=["--version"],
    result_action="return_value",
)
app.default(launch)
app.command(
    "launcher.cli.job_files.init_job:init", name="init", help="Write a job file for a training script."
)
app.command("launcher.cli.plan:check", name="check", help="Judge a job file and its plan, offline.")
app.command("launcher.cli.lint:lint", name="lint", help="Find the distributed mistakes of training scripts.")
app.command("launcher.cli.plan:plan", name="plan", help="Show the resolved plan and the request.")
app.command(
    "launcher.cli.job_files.import_job:import_job",
    name="import",
    help="Make a job file of a training job, an SDK program or a batch script.",
)
app.command("launcher.cli.plan:schema", name="schema", help="Print the JSON schema of job files.")
app.command(
    "launcher.cli.experiments.ladder:ladder",
    name="ladder",
    help="Climb from one process to all hosts, a few steps each, to where a job breaks.",
)
app.command("launcher.cli.find:find", name="find", help="List the instance types that a job could have.")
app.command("launcher.cli.jobs:list_jobs", name="list", help="List jobs, newest first.")
app.command("launcher.cli.jobs:status", name="status", help="Show how a job is.")
app.command("launcher.cli.jobs:logs", name="logs", help="Show or follow a job's logs, of all hosts.")
app.command("launcher.cli.jobs:stop", name="stop", help="Ask a job to stop.")
app.command("launcher.cli.jobs:resume", name="resume", help="Start a job again from its newest checkpoint.")
app.command(
    "launcher.cli.experiments.pair:pair", name="pair", help="Compare two runs that differ in one thing."
)
app.command(
    "launcher.cli.experiments.proof:proof",
    name="proof",
    help="Measure the network between hosts, and say which host is slow.",
)
app.command("launcher.cli.jobs:clean", name="clean", help="Delete old local runs.")
app.command("launcher.cli.diagnose:diagnose", name="diagnose", help="Say why a job failed.")
app.command("launcher.cli.diagnose:report", name="report", help="Write one HTML page that tells a run.")
app.command(
    "launcher.cli.cluster_commands:cluster",
    name="cluster",
    help="See what would be done to a cluster, look at it, or take it away.",
)
app.command("launcher.cli.diagnose:explain", name="explain", help="Explain a failure mode, or all of them.")
app.command(
    "launcher.cli.app:install_completion",
    name="--install-completion",
    help="Let the shell complete commands and options.",
)

GARBAGE_THRESHOLD = 200_000
"""New objects before the garbage collector looks; Python's own 700 is a hundredth of what a start makes."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `launch` and exit: 0 done, 1 errors or a failed job, 2 usage, 3 AWS, 130 interrupted."""
    _notice_ended_children()
    _start_quickly()
    _open_closed_streams()
    _write_what_streams_can()
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in tokens
    code = _run_command([token for token in tokens if token != "--debug"], debug)
    sys.exit(_end_output(code))


def _notice_ended_children() -> None:
    """Have the system keep how processes end that are started from here, for whoever asks.

    Some supervisors start programs with SIGCHLD ignored, which is inherited: no process then has an exit
    status, and Python takes that for success.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _start_quickly() -> None:
    """Leave out of the start what costs time and brings a command nothing: together a twelfth of `check`.

    Importing makes objects by the hundred thousand that all stay, through which the garbage collector looks
    again and again at its usual threshold. And pydantic looks through all installed packages for plugins.
    At the end all that is left goes with the process: to look through it for garbage first, and to take that
    apart, takes longer than a lint of 270 files.
    """
    gc.set_threshold(GARBAGE_THRESHOLD)
    atexit.register(gc.freeze)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def _open_closed_streams() -> None:
    """Where stdin, stdout or stderr was closed (`<&-`, some schedulers), put /dev/null: nobody asks for each.

    Python has None there, which nothing that reads, prints or asks expects; and the first file that is
    opened would take the stream's place in the processes that are started from here.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            file = os.open(os.devnull, os.O_RDWR)
            # The lowest free number is taken: that of the closed stream, which children are to have too.
            os.set_inheritable(file, file <= 2)
            setattr(sys, name, os.fdopen(file, mode, encoding="utf-8"))


def _write_what_streams_can() -> None:
    """What the encoding of stdout or stderr lacks is written as an escape, instead of ending the command.

    That is most of Unicode where the locale is ASCII, and half surrogates everywhere, which logs of
    CloudWatch hold because JSON allows them.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _end_output(code: int) -> int:
    """Write what is still to be written; the exit code, 1 where that fails and all else went well."""
    for stream, name in ((sys.stdout, "standard output"), (sys.stderr, "standard error")):
        try:
            if not stream.closed:
                stream.flush()
        except BrokenPipeError:
            _drop_output(stream)
        except OSError as error:
            _drop_output(stream)
            _tell_lost_output(error, name)
            code = code or 1
    return code


def _drop_output(stream: TextIO) -> None:
    """Let what waits in a stream go nowhere, or the interpreter would try once more and complain."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def _is_lost_output(error: BaseException) -> bool:
    """Whether it is a write that failed, and to no file of a name: a stream that leads to a full disk."""
    return isinstance(error, OSError) and error.errno in _NO_ROOM and error.filename is None


def _tell_lost_output(error: OSError, name: str = "what this command prints") -> None:
    with contextlib.suppress(OSError):
        message(
            f"error: {name} cannot be written: {error.strerror}. What was printed so far is not complete.\n"
            "  → Free some of the disk that it goes to, or send it to another one, and run the command again."
        )


def _has_working_directory() -> bool:
    try:
        Path.cwd()
    except OSError:
        return False
    return True


def _help_hint(error: CycloptsError) -> str:
    """Where the options of the command that was called wrongly are shown."""
    return f"See `{' '.join(['launch', *(error.command_chain or []), '--help'])}`."


def _run_command(tokens: list[str], debug: bool) -> int:
    try:
        if not tokens or tokens[0] in ("--help", "-h"):
            # Straight to the help: binding the arguments first would take a third longer.
            app.help_print([])
            return 0 if tokens else EXIT_USAGE
        if slip := _misspelt_command(tokens[0]):
            message(f"error: {slip}\nSee `launch --help`.")
            return EXIT_USAGE
        result = app(tokens, exit_on_error=False, print_error=False)
        return result if isinstance(result, int) else 0
    except UnusedCliTokensError as error:
        message(f"error: too many arguments: {' '.join(error.unused_tokens or [])}.\n{_help_hint(error)}")
        return EXIT_USAGE
    except CycloptsError as error:
        message(f"error: {error}\n{_help_hint(error)}")
        return EXIT_USAGE
    except Refusal as refusal:
        if debug:
            raise
        message(f"error: {refusal.message}\n  → {refusal.remedy}")
        return refusal.exit_code
    except KeyboardInterrupt:
        if debug:
            raise
        message("interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (`launch explain --all | head`); there is nobody to tell.
        sys.stderr.close()
        return 1
    except Exception as error:
        if debug:
            raise
        if isinstance(error, FileNotFoundError) and not _has_working_directory():
            message(
                "error: the folder that this command was started in was deleted meanwhile, so that no job "
                "file and no local runs can be found from it.\n  → Go to a folder that is there: cd ~"
            )
            return EXIT_USAGE
        if _is_lost_output(error):
            assert isinstance(error, OSError)
            _drop_output(sys.stdout)
            _tell_lost_output(error)
            return 1
        message(
            f"error: {type(error).__name__}: {error}\n"
            "  → This is a fault of the launcher. Run again with --debug and report what it prints."
        )
        return 1


def _misspelt_command(first: str) -> str:
    """What to say of a first word that is almost a command, and no job file; empty for all others."""
    # Job files have an ending, and options their own suggestions.
    if first in app or first.startswith("-") or "." in first or "/" in first:
        return ""
    from launcher.text.values import nearest

    meant = nearest(first, [name for name in app if not name.startswith("-")])
    if not meant or Path(first).exists():
        return ""
    return f"{first} is neither a command nor a job file. Did you mean {meant[0]}?"


if __name__ == "__main__":
    main()
