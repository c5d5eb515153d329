"""`deadweight doctor`: check a log before it is evaluated, show what a finding is about, mend what can be."""

from __future__ import annotations

import json as json_text
from dataclasses import replace
from pathlib import Path

from deadweight._version import SCHEMA
from deadweight.cli.process import File, finish, out_json, refuse, tell, tell_words
from deadweight.cli.request import Request, assume, check_behaviour, check_file
from deadweight.errors import DeadweightError, OptionError, how_many
from deadweight.io.doctor import METADATA, Diagnosis, Mended, examine, mend
from deadweight.io.doctor_labels import NO_BEHAVIOUR
from deadweight.io.files import from_stdin, guarded
from deadweight.io.folders import PARQUET, files_of
from deadweight.io.table import LogTable, open_table
from deadweight.tools.files import write_text, write_whole, writing

FOUND_ERRORS = 1
CHANGES = ".changes.json"
FIRST_ROWS = 20
NO_ROOM = "Free some space, or name a file on another disk with --fix."


def doctor(request: Request) -> int:
    """Print what was found; the exit code is 0 without errors, 1 with, 2 if there was nothing to examine."""
    try:
        check_behaviour(request.behaviour)
        if request.fix is not None:
            read = [path for path in (request.log, request.target) if path is not None]
            check_file(request.fix, "--fix", read, request.json)
            _check_name(request.fix)
            check_file(_record_of(request.fix), "--fix", read, request.json)
        target = request.target_policy()
        with from_stdin(request.log) as source:
            # Not anonymous: rows are what a user looks for here.
            reading = request.renames, request.mending(anonymous=False), request.patterns
            table = open_table(str(source), *reading, assume)
            diagnosis = examine(table, target, request.limit)
            if request.behaviour != "column":  # says what the finding asks for
                asked = tuple(finding for finding in diagnosis if finding.code != NO_BEHAVIOUR)
                diagnosis = replace(diagnosis, findings=asked)
            if request.rows is not None:
                return _show_rows(table, diagnosis, request.rows)
            if request.fix is not None:
                return _write(request, request.fix, mend(table, request.limit))
    except DeadweightError as error:
        if not request.json:
            raise
        return refuse(error, request.json, _unreadable(str(request.log), error))
    commands = {finding.code: request.command_for(finding, table) for finding in diagnosis}
    if request.json:
        findings = [{**finding.to_dict(), "command": commands[finding.code]} for finding in diagnosis]
        out_json({**diagnosis.to_dict(), "findings": findings})
    else:
        tell_words(diagnosis.written(commands))
    return 0 if diagnosis.ok else FOUND_ERRORS


def _check_name(path: Path) -> None:
    """Refuse a name that says something else than what is written: it could not be read again."""
    if path.suffix.lower() not in PARQUET:
        raise OptionError(
            f"--fix writes Parquet, whose name ends in {' or '.join(PARQUET)}; found {str(path)!r}.",
            fix=f"For example --fix {path.stem or 'mended'}.parquet.",
        )


def _record_of(path: Path) -> Path:
    """The path of the record of changes."""
    return path.with_name(path.name + CHANGES)


def _show_rows(table: LogTable, diagnosis: Diagnosis, code: str) -> int:
    """Print the rows of a finding as CSV with their numbers, or the first rows where it is about all."""
    import pyarrow as pa
    import pyarrow.csv as csv

    finding = next((each for each in diagnosis if each.code == code.strip().upper()), None)
    if finding is None:
        codes = ", ".join(each.code for each in diagnosis) or "none at all"
        raise OptionError(
            f"--rows {code.strip().upper()}: the doctor has no such finding here; it has {codes}.",
            fix="Name one of these.",
        )
    rows = finding.all_rows if finding.count else range(min(table.n_rows, FIRST_ROWS))
    numbers = pa.array(list(rows), pa.int64())
    columns = {
        guarded(pa.array([theirs]))[0][0].as_py(): guarded(table.arrow(ours).take(numbers))[0]
        for ours, theirs in table.names.items()
    }
    sink = pa.BufferOutputStream()
    csv.write_csv(pa.table({"row": numbers, **columns}), sink)
    tell(sink.getvalue().to_pybytes().decode().rstrip("\n"))
    return 0


def _write(request: Request, path: Path, mended: Mended) -> int:
    """Print what was changed and is left; write the mended log with the record, inside it and beside it."""
    changes = [change.to_dict() for change in mended.changes]
    record = json_text.dumps({"schema": SCHEMA, "changes": changes}, indent=2)
    beside = _record_of(path)

    def write() -> None:
        import pyarrow.parquet as pq

        like = files_of(request.log)
        metadata = {**(mended.table.schema.metadata or {}), METADATA: record.encode()}
        table = mended.table.replace_schema_metadata(metadata)
        with writing(path, NO_ROOM):
            write_whole(path, lambda file: pq.write_table(table, file), like)
        with writing(beside, NO_ROOM):
            write_text(beside, record + "\n", like)

    size = how_many(mended.table.num_rows, "row")
    files = [File("written", path, write, f"\nWritten: {path} ({size}); the record of changes: {beside}")]
    code = 0 if mended.diagnosis.ok else FOUND_ERRORS
    if request.json:
        return finish(code, files, {"changes": changes, "left": mended.diagnosis.to_dict()})
    tell("Changed:" if changes else "Nothing was changed.")
    for change in mended.changes:
        column = f"{change.column}: " if change.column else ""
        tell_words(f"  {column}{change.what}" + (f" ({how_many(change.rows, 'row')})" if change.rows else ""))
    left = Request(log=path)
    tell("\nWhat is left:")
    tell_words(mended.diagnosis.written({each.code: left.command_for(each) for each in mended.diagnosis}))
    return finish(code, files)


def _unreadable(source: str, error: DeadweightError) -> dict[str, object]:
    """The diagnosis of what is not a log, as in the JSON document of one that is."""
    finding = {
        "code": error.code,
        "severity": "error",
        "problem": error.problem,
        "fix": error.fix,
        "count": 0,
        "rows": [],
        "title": "Not a log that can be read",
    }
    counts = {"error": 1, "warning": 0, "info": 0}
    return {"source": source, "ok": False, "counts": counts, "findings": [finding]}
