// Another libnccl.so.2, to tell from ours.
// NOLINTBEGIN(readability-identifier-naming): the name is NCCL's
int ncclGetVersion(int *version);

int ncclGetVersion(int *version) {
  *version = 1;
  return 0;
}
// NOLINTEND(readability-identifier-naming)
