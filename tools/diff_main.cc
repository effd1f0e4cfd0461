#include "tools/diff_command.h"

int main(int argc, char** argv) { return tdump::tools::DiffCommand().Run(argc, argv); }
