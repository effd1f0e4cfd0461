// What to run instead, where what was compared does not tell what was asked.
#pragma once

#include <string>

#include "compare/diff.h"
#include "tools/diff_source.h"

namespace tdump::tools {

// Of two ranks of one run that were given other inputs, as data parallel ranks are: the option that
// compares what they hold as copies. "" of any other two sides.
std::string ReplicaHint(const DiffSources& sources, const compare::DiffReport& report);

// Of runs of which one lacks steps, or parts of them, as one that was killed does: the option that
// compares the steps that are whole on both sides. "" where all are, or none is.
std::string StepsHint(const DiffSources& sources, const compare::PairOptions& pairing,
                      const compare::DiffReport& report);

// Of runs of which one was captured on some ranks only: which, and the option that compares no
// others. "" where both have the same, or nothing is missed.
std::string RanksHint(const DiffSources& sources, const compare::PairOptions& pairing,
                      const compare::DiffReport& report);

// Of runs of which one runs forwards again (activation checkpointing): the option that lets the
// records of these be alone. "" of others.
std::string RecomputeHint(const compare::DiffReport& report);

}  // namespace tdump::tools
