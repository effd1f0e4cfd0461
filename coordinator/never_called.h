// What a run knows about why an operator that the rules select was never called: what became of the
// modules around it, and what the job's notes say.
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "io/pass_store.h"
#include "io/run_index.h"

namespace tdump::coordinator {

class NeverCalled {
 public:
  NeverCalled(const io::PassStore& store, const io::RunIndex& index);

  // A sentence, "perhaps" in it where it is a guess.
  std::string Why(const std::string& name) const;

  // Of one that was called, or was in other steps: what around it is compiled and not captured
  // inside.
  struct Compiled {
    std::string module;  // its name; "": of the modules around it some are not known
    std::string why;     // "": nothing that is
  };
  Compiled InsideOf(const std::string& name) const;

 private:
  struct Around;  // what is found on the way out from an operator
  Around LookAround(const std::string& name) const;
  Compiled InsideOf(const Around& around) const;
  std::string ClassOf(const io::OperatorCoverage& module) const;
  void AddNote(const std::string& text);

  std::unordered_map<std::string, const io::OperatorCoverage*> operators_;  // by PlainName
  std::unordered_map<std::string, const io::ExpectSection*> expected_;      // the same
  std::map<std::string, std::string> root_classes_;                         // the same
  std::set<std::string> compiled_;  // short names of classes that are not captured inside
  std::string first_note_;          // of modules that are not captured otherwise
};

}  // namespace tdump::coordinator
