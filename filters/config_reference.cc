#include "filters/config_reference.h"

#include "filters/schema.h"

namespace tdump::filters {
namespace {

constexpr std::string_view kHead = R"(# Configuration

<!-- Made from filters/schema.cc, filters/rule_schema.cc and filters/config_reference.cc: change it there. -->

A configuration says which steps, ranks and operators are recorded, and what is kept of them. It is a YAML file:

```yaml
# tdump.yaml
steps: 0-1
capture:
  - {name: dropout, level: off}             # the first rule that matches decides
  - {leaf: true, role: [input, output]}     # all keys of a rule must hold
```

`mpirun -n 4 tdump-run -c tdump.yaml -- python app.py` records with it; `tdump-run -c tdump.yaml --check --ranks 4` only
says whether it is right: every mistake of the file as `file:line:column: what; expected ...; did you mean ...?`.
`tdump-run --recipes` lists files to start from.

## What wins

Built-in defaults < the file (`-c`, `--recipe` or `TDUMP_CONFIG`) < environment < command line of `tdump-run`. A key of a
higher one replaces that key; `capture` and `filters` are replaced as a whole. `tdump-run --print` shows the outcome, which
is also written to `config.yaml` in the run directory. An empty variable counts as none.

| Variable | Option | Key |
|---|---|---|
| `TDUMP_CONFIG` | `-c FILE`, `--recipe NAME`, `--dump` (none) | the file |
| `TDUMP_DIR` | `-o DIR` | `output.dir` |
| `TDUMP_STEPS` | `--steps SPEC` | `steps.select` |
| `TDUMP_RANKS` | `--ranks SPEC` | `ranks` |
| `TDUMP_LEVEL` | `--level LEVEL` | `level` of every rule that keeps something |
| `TDUMP_FILTER` | `--filter REGEX`, repeated | `capture`: one rule, leaf modules, their outputs in full, whose path matches |
| `TDUMP_FILTER_FN` | | the same with the predicate (`where`); both together: both must hold |
| `TDUMP_LOG` | | `log` |
| | `--set KEY=VALUE`, repeated | any key: `--set memory.host=1GiB`, `--set 'capture=[{name: mlp}]'` |

`TDUMP_CONFIG`, `TDUMP_DIR` or what `tdump-run` sets turns tdump on in a process that imports torch; `TDUMP_DISABLE=1` turns
it off whatever else is set. `TDUMP_JOB` names the job, `TDUMP_RANK` this process's rank, where no launcher does.

A mistake in a file, a variable or an option stops `tdump-run` with status 125 before the job starts. Without `tdump-run`
nothing can be stopped: tdump says what is wrong in one message and stays out.

## Values

| Word | Means |
|---|---|
| SPEC | whole numbers, ranges inclusive: `7`, `0-9`, `3,7`, `0-511:8` (every 8th), `[0-3, 8]`, `all`, `none`; for ranks also from the end: `-1`, the last, `-2`, the one before it |
| bytes | `4096`, `512MiB`, `2GiB` (powers of 1,024), `10GB` (powers of 1,000) |
| time | `30s`, `500ms`, `2m`, `1h`; a bare number is seconds |
| regexes | one, or a list of which any has to match. Searched, not anchored; PCRE2 syntax. Write them in single quotes: in double quotes a backslash is YAML's |
| on, off, true, false, auto | these words only; elsewhere `no`, `on`, `1e3`, `~` are the text they are |

A file is UTF-8 (a byte order mark is allowed), one document of at most 1 MiB. A key given twice, an unknown key, a tag and a
merge key (`<<`) are mistakes. Anchors and aliases work, up to 200,000 values once expanded.

## Keys
)";

constexpr std::string_view kRules = R"(
## Rules

`capture` is a list of rules. For each tensor the first rule that matches decides; none: nothing is kept. A rule matches
when all of its keys hold; a key left out does not restrict, except `role`, `phase` and `level`, whose defaults apply.
`level: off` keeps a tensor out. As a map, `capture: {attention: [...], norms: [...]}`, it is several filter sets, each
deciding on its own; what is kept is the union.

```yaml
filters:
  small: [{numel: 0-15, level: off}]
capture:
  attention:
    - use: small
    - {name: 'attention\.self', role: [input, output]}
  every norm:
    - {class: 'LayerNorm$', level: hash}
```

`tdump-run -c tdump.yaml --explain encoder.layer.3.attention.self.query` says which rule decides for an operator, and why.
)";

constexpr std::string_view kLaterHead = R"(
## Keys of later versions

Known, and accepted with their default only; any other value is refused with "not in this version".

)";

// A bar would end a cell of a table, even inside a code span.
std::string EscapeBars(std::string_view text) {
  std::string out;
  for (char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string Code(std::string_view text) { return "`" + EscapeBars(text) + "`"; }

template <class T>
std::string Table(std::span<const KeySpec<T>> keys) {
  std::string text = "\n| Key | Value | Default | Meaning | Example |\n|---|---|---|---|---|\n";
  for (const KeySpec<T>& key : keys) {
    if (key.read == nullptr) continue;
    text += "| " + Code(key.path) + " | " + EscapeBars(key.type) + " | " + Code(key.value) + " | " +
            EscapeBars(key.doc) + " | " + (key.example.empty() ? "" : Code(key.example)) + " |\n";
  }
  return text;
}

template <class T>
std::string LaterList(std::span<const KeySpec<T>> keys, std::string_view prefix) {
  std::string text;
  for (const KeySpec<T>& key : keys) {
    if (key.read != nullptr) continue;
    text += "- `" + std::string(prefix) + std::string(key.path) + "` (`" + std::string(key.value) +
            "`): " + std::string(key.doc) + "\n";
  }
  return text;
}

}  // namespace

std::string ConfigReference() {
  return std::string(kHead) + Table(ConfigKeys()) + std::string(kRules) + Table(RuleKeys()) +
         std::string(kLaterHead) + LaterList(ConfigKeys(), "") + LaterList(RuleKeys(), "capture: ");
}

}  // namespace tdump::filters
