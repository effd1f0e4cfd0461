// make_golden DIRECTORY: writes the golden files. Run only for a new file of
// the set; the old ones never change.
#include <cstdio>
#include <fstream>

#include "tests/format/golden.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_golden DIRECTORY (tests/format/golden)\n");
    return 2;
  }
  for (const auto& [name, bytes] : tdump::io::test::GoldenFiles()) {
    std::ofstream file(std::string(argv[1]) + "/" + name, std::ios::binary);
    file << bytes;
    if (!file.flush()) {
      std::fprintf(stderr, "make_golden: cannot write %s/%s\n", argv[1], name.c_str());
      return 1;
    }
  }
  return 0;
}
