// rondo-info tune: measures the cost model of this machine into a file.
#ifndef RONDO_TOOLS_INFO_TUNE_H
#define RONDO_TOOLS_INFO_TUNE_H

int info_tune_main(int argc, char **argv);

#endif // RONDO_TOOLS_INFO_TUNE_H
