// What an exception says, without the stack that torch adds to its own.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>

namespace tdump::collectors {

inline std::string WhatOf(const std::exception& error) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
  return of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
}

}  // namespace tdump::collectors
