#include "tools/view_command.h"

int main(int argc, char** argv) { return tdump::tools::ViewCommand().Run(argc, argv); }
