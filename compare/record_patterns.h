// RecordPatterns: which records a user means who knows them from a report.
#pragma once

#include <concepts>
#include <string>
#include <utility>

#include "compare/pairing.h"
#include "io/records.h"

namespace tdump::compare {

struct RecordPatterns {
  NameFilter of_names;  // plain names, of all their records; empty: none
  // Of what reports print of one record: its key ("fc@grad_output#~b") and how tables call it ("fc,
  // grad_output"); empty: none.
  NameFilter of_records;

  RecordPatterns() = default;
  template <class Names>
  requires std::constructible_from<NameFilter, Names> RecordPatterns(Names names)
      : of_names(std::move(names)) {}
  RecordPatterns(NameFilter names, NameFilter records)
      : of_names(std::move(names)), of_records(std::move(records)) {}

  explicit operator bool() const { return of_names || of_records; }
  bool Match(const io::Record& record) const;
};

// How users write the record of a module, which of a second root is not its key's text:
// "CrossEntropyLoss@output#", "fc@grad_output#~b".
std::string PlainKey(const Key& key);

// An input of a root: "kwargs.tokens", of another than the first "1 of CrossEntropyLoss".
std::string RootInputName(const Key& key);

// "output", "input 0 of call 2": what a record is to its operator, as tables say it.
std::string ObservationText(const Key& key);

}  // namespace tdump::compare
