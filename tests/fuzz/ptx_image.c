// Any bytes as the image of a module: it gives a text or is refused with a line, and nothing is
// read past its end.
#include "rondo/status.h"
#include "tests/support/fuzz.h"
#include "tests/support/ptx/ptx_image.h"

#define HEAD_BYTES 16u

// A copy that ends where the caller of ptx_image_text says: a fatbin by its header, other bytes by
// a zero.
static char *image_of_input(const uint8_t *data, size_t size) {
  static const uint8_t magic[] = {0x50, 0xed, 0x55, 0xba};
  const int is_fatbin = size >= sizeof magic && memcmp(data, magic, sizeof magic) == 0;
  if (is_fatbin && size < HEAD_BYTES)
    return NULL; // its header has no length
  char *image = malloc(size + !is_fatbin);
  if (!image)
    return NULL;
  if (size)
    memcpy(image, data, size);
  const uint64_t entries_bytes = size - HEAD_BYTES;
  if (is_fatbin)
    memcpy(image + 8, &entries_bytes, sizeof entries_bytes);
  else
    image[size] = 0;
  return image;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *image = image_of_input(data, size);
  char *text = NULL;
  char why[200] = "";
  if (!image)
    return 0;
  const int status = ptx_image_text(image, 90, &text, why, sizeof why);
  RONDO_FUZZ_CHECK((status == RONDO_SUCCESS) == (text != NULL));
  RONDO_FUZZ_CHECK((status == RONDO_SUCCESS) == (why[0] == 0));
  if (text)
    RONDO_FUZZ_CHECK(strlen(text) <= PTX_IMAGE_TEXT_BYTES);
  free(text);
  free(image);
  return 0;
}
