"""Every variable that tdump reads, and values that nobody means."""

NAMES = (
    "TDUMP_CONFIG",
    "TDUMP_DIR",
    "TDUMP_JOB",
    "TDUMP_FILTER",
    "TDUMP_FILTER_FN",
    "TDUMP_STEPS",
    "TDUMP_RANKS",
    "TDUMP_LEVEL",
    "TDUMP_RANK",
    "TDUMP_DISABLE",
    "TDUMP_LOG",
    "TDUMP_EFFECTIVE",
    "TDUMP_EFFECTIVE_1",
    "TDUMP_EFFECTIVE_FROM",
    "TDUMP_OWNER",
    "TDUMP_LAUNCH",
    "TDUMP_LAUNCHED",
    "TDUMP_BASE",
    "TDUMP_CHILDREN",
)
VALUES = {
    "empty": b"",
    "list": b"a,b,c",
    "word": b"yes",
    "number": b"-1",
    "long": b"x" * 65536,
    "missing file": b"/no/such/file",
    "not UTF-8": b"\xff\xfe\x80",
}
