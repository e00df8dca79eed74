// The PTX text of an image: fatbins that nvcc 13 made of one small kernel, without compression,
// with zstd and with LZ4; the same, broken in every way; and plain PTX. Images end where a page
// begins that cannot be read.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "rondo/status.h"
#include "tests/support/ptx/ptx_image.h"

#define PAGE_BYTES 4096u
#define HEAD_BYTES 16u
// Offsets of the fields of an image whose first entry is PTX.
#define AT_VERSION 4u
#define AT_ENTRIES_BYTES 8u
#define AT_ENTRY_HEAD_BYTES (HEAD_BYTES + 4u)
#define AT_PAYLOAD_BYTES (HEAD_BYTES + 8u)
#define AT_COMPRESSED_BYTES (HEAD_BYTES + 16u)
#define AT_ARCH (HEAD_BYTES + 28u)
#define AT_FLAGS (HEAD_BYTES + 40u)
#define AT_TEXT_BYTES (HEAD_BYTES + 56u)

static const char *const NAMES[] = {"plain", "zstd", "lz4"};
#define NAME_COUNT (sizeof NAMES / sizeof NAMES[0])

struct image {
  char *pages;
  size_t bytes;
  char *at; // the last byte is the last of a page
  char why[200];
};

static size_t file_read(const char *name, char *to, size_t bytes) {
  char path[1000];
  snprintf(path, sizeof path, "%s/%s", PTX_IMAGES, name);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  const size_t count = fread(to, 1, bytes, file);
  fclose(file);
  return count;
}

static void image_place(struct image *image, const char *data, size_t bytes) {
  memmove(image->pages + PAGE_BYTES - bytes, data, bytes);
  image->at = image->pages + PAGE_BYTES - bytes;
  image->bytes = bytes;
}

static void image_read(struct image *image, const char *name) {
  char data[PAGE_BYTES];
  const size_t bytes = file_read(name, data, sizeof data);
  assert_in_range(bytes, 100, sizeof data - 1);
  image_place(image, data, bytes);
}

static int setup(void **state) {
  struct image *image = calloc(1, sizeof *image);
  assert_non_null(image);
  image->pages = mmap(NULL, 2 * (size_t)PAGE_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(image->pages != MAP_FAILED);
  assert_int_equal(mprotect(image->pages + PAGE_BYTES, PAGE_BYTES, PROT_NONE), 0);
  *state = image;
  return 0;
}

static int teardown(void **state) {
  struct image *image = *state;
  munmap(image->pages, 2 * (size_t)PAGE_BYTES);
  free(image);
  return 0;
}

static void put(struct image *image, size_t at, uint64_t value, size_t bytes) {
  memcpy(image->at + at, &value, bytes);
}

static uint64_t get(const struct image *image, size_t at, size_t bytes) {
  uint64_t value = 0;
  memcpy(&value, image->at + at, bytes);
  return value;
}

static int image_text(struct image *image, uint32_t arch, char **text) {
  image->why[0] = 0;
  return ptx_image_text(image->at, arch, text, image->why, sizeof image->why);
}

// Refused with `status` and one line that has `words` in it; `text` stays as it was.
static void assert_refused(struct image *image, uint32_t arch, int status, const char *words) {
  char *text = NULL;
  assert_int_equal(image_text(image, arch, &text), status);
  assert_null(text);
  if (!strstr(image->why, words) || strchr(image->why, '\n'))
    fail_msg("'%s' does not have '%s'", image->why, words);
}

static void every_compression_gives_the_same_text(void **state) {
  struct image *image = *state;
  for (uint32_t arch = 80; arch <= 90; arch += 10) {
    char *texts[NAME_COUNT] = {NULL};
    for (size_t i = 0; i < NAME_COUNT; i++) {
      image_read(image, NAMES[i]);
      assert_int_equal(image_text(image, arch, &texts[i]), RONDO_SUCCESS);
    }
    assert_non_null(strstr(texts[0], ".visible .entry tiny("));
    assert_non_null(strstr(texts[0], arch == 80 ? ".target sm_80\n" : ".target sm_90\n"));
    for (size_t i = 1; i < NAME_COUNT; i++)
      assert_string_equal(texts[i], texts[0]);
    for (size_t i = 0; i < NAME_COUNT; i++)
      free(texts[i]);
  }
}

static void the_highest_architecture_that_is_not_above_is_taken(void **state) {
  static const struct {
    uint32_t arch;
    const char *target;
  } cases[] = {{80, "sm_80"}, {89, "sm_80"}, {90, "sm_90"}, {120, "sm_90"}};
  struct image *image = *state;
  image_read(image, "zstd");
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char *text = NULL;
    assert_int_equal(image_text(image, cases[i].arch, &text), RONDO_SUCCESS);
    assert_non_null(strstr(text, cases[i].target));
    free(text);
  }
  assert_refused(image, 75, RONDO_ERR_UNSUPPORTED, "no PTX for architecture 75");
  put(image, AT_ARCH, 90, 4); // two of the same: the first
  char *text = NULL;
  assert_int_equal(image_text(image, 90, &text), RONDO_SUCCESS);
  assert_non_null(strstr(text, "sm_80"));
  free(text);
}

static void plain_ptx_is_copied(void **state) {
  static const char ptx[] = "//\n.version 9.0\n.target sm_90a\n.address_size 64\n";
  struct image *image = *state;
  image_place(image, ptx, sizeof ptx);
  char *text = NULL;
  assert_int_equal(image_text(image, 90, &text), RONDO_SUCCESS);
  assert_string_equal(text, ptx);
  free(text);
  assert_refused(image, 80, RONDO_ERR_UNSUPPORTED, "the PTX is for architecture 90");
}

static void what_is_no_image_is_refused(void **state) {
  static const char *const images[] = {"", "P", "P\xed", "P\xedU", "\177ELF", ".target sm_"};
  struct image *image = *state;
  for (size_t i = 0; i < sizeof images / sizeof images[0]; i++) {
    image_place(image, images[i], strlen(images[i]) + 1);
    char *text = NULL;
    assert_int_not_equal(image_text(image, 90, &text), RONDO_SUCCESS);
    assert_null(text);
    assert_true(image->why[0]);
  }
}

static void a_cut_image_is_refused_and_not_read_beyond(void **state) {
  struct image *image = *state;
  for (size_t i = 0; i < NAME_COUNT; i++) {
    char whole[PAGE_BYTES];
    const size_t bytes = file_read(NAMES[i], whole, sizeof whole);
    image_place(image, whole, bytes);
    const uint64_t first_entry =
        get(image, AT_ENTRY_HEAD_BYTES, 4) + get(image, AT_PAYLOAD_BYTES, 8);
    for (size_t cut = HEAD_BYTES; cut < bytes; cut++) {
      image_place(image, whole, cut);
      put(image, AT_ENTRIES_BYTES, cut - HEAD_BYTES, 8);
      char *text = NULL;
      // An image of the first entry alone is whole.
      assert_int_equal(image_text(image, 90, &text) == RONDO_SUCCESS,
                       cut == HEAD_BYTES + first_entry);
      free(text);
    }
  }
}

// Whatever a byte becomes, the image is refused with a line or gives a text.
static void a_wrong_byte_is_never_read_beyond(void **state) {
  static const uint8_t wrongs[] = {0, 1, 0x10, 0x7f, 0x80, 0xff};
  struct image *image = *state;
  for (size_t i = 0; i < NAME_COUNT; i++) {
    image_read(image, NAMES[i]);
    for (size_t at = 0; at < image->bytes; at++) {
      if (at >= AT_ENTRIES_BYTES && at < HEAD_BYTES)
        continue; // the length of the image is the caller's word
      const uint8_t right = (uint8_t)image->at[at];
      for (size_t k = 0; k < sizeof wrongs; k++) {
        char *text = NULL;
        image->at[at] = (char)(right ^ wrongs[k]);
        const int status = image_text(image, 90, &text);
        assert_int_equal(status == RONDO_SUCCESS, text != NULL);
        assert_int_equal(status == RONDO_SUCCESS, image->why[0] == 0);
        free(text);
      }
      image->at[at] = (char)right;
    }
  }
}

static void wrong_sizes_are_refused(void **state) {
  struct image *image = *state;
  for (size_t i = 1; i < NAME_COUNT; i++) {
    image_read(image, NAMES[i]);
    const uint64_t text_bytes = get(image, AT_TEXT_BYTES, 8);
    put(image, AT_TEXT_BYTES, text_bytes - 1, 8);
    assert_refused(image, 80, RONDO_ERR_INVALID, "does not give");
    put(image, AT_TEXT_BYTES, text_bytes + 1, 8);
    assert_refused(image, 80, RONDO_ERR_INVALID, "does not give");
    put(image, AT_TEXT_BYTES, (uint64_t)PTX_IMAGE_TEXT_BYTES + 1, 8);
    assert_refused(image, 80, RONDO_ERR_INVALID, "67108865 bytes is not accepted");
    put(image, AT_TEXT_BYTES, 0, 8);
    assert_refused(image, 80, RONDO_ERR_INVALID, "0 bytes is not accepted");
    put(image, AT_TEXT_BYTES, text_bytes, 8);
    put(image, AT_COMPRESSED_BYTES, get(image, AT_PAYLOAD_BYTES, 8) + 1, 4);
    assert_refused(image, 80, RONDO_ERR_INVALID, "more than the payload has");
  }
}

static void unknown_forms_are_refused(void **state) {
  struct image *image = *state;
  image_read(image, "zstd");
  const uint64_t flags = get(image, AT_FLAGS, 8);
  put(image, AT_FLAGS, 0x1011, 8);
  assert_refused(image, 80, RONDO_ERR_UNSUPPORTED, "neither zstd nor LZ4");
  put(image, AT_FLAGS, flags, 8);
  put(image, AT_VERSION, 2, 2);
  assert_refused(image, 80, RONDO_ERR_UNSUPPORTED, "version 2");
}

// Blocks of LZ4 that would read or write outside, or leave the text short.
static void broken_lz4_is_refused(void **state) {
  static const struct {
    uint8_t bytes[16];
    uint32_t count;
  } blocks[] = {{{0x00}, 1},                                // a match without an offset
                {{0x40, 'a', 'b', 'c'}, 4},                 // literals past the end
                {{0xf0}, 1},                                // a length without its second byte
                {{0xf0, 255, 255}, 3},                      // a length that does not end
                {{0x40, 'a', 'b', 'c', 'd', 0, 0}, 7},      // a match at offset 0
                {{0x40, 'a', 'b', 'c', 'd', 5, 0}, 7},      // a match before the beginning
                {{0x4f, 'a', 'b', 'c', 'd', 4, 0, 250}, 8}, // a match past the end of the text
                {{0x40, 'a', 'b', 'c', 'd', 4}, 6},         // half an offset
                {{0x30, 'a', 'b', 'c'}, 4},                 // a text that is too short
                {{0x90, 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'}, 10}, // one that is too long
                {{0}, 0}};
  struct image *image = *state;
  for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
    image_read(image, "lz4");
    const size_t payload = HEAD_BYTES + get(image, AT_ENTRY_HEAD_BYTES, 4);
    memcpy(image->at + payload, blocks[i].bytes, sizeof blocks[i].bytes);
    put(image, AT_COMPRESSED_BYTES, blocks[i].count, 4);
    put(image, AT_TEXT_BYTES, 8, 8);
    assert_refused(image, 80, RONDO_ERR_INVALID, "does not give the 8 bytes");
  }
}

static void matches_of_lz4_may_overlap(void **state) {
  static const uint8_t block[] = {0x2f, 'a', 'b', 2, 0, 3, 0x10, 'c'}; // ab, 22 bytes back by 2, c
  struct image *image = *state;
  image_read(image, "lz4");
  memcpy(image->at + HEAD_BYTES + get(image, AT_ENTRY_HEAD_BYTES, 4), block, sizeof block);
  put(image, AT_COMPRESSED_BYTES, sizeof block, 4);
  put(image, AT_TEXT_BYTES, 25, 8);
  char *text = NULL;
  assert_int_equal(image_text(image, 80, &text), RONDO_SUCCESS);
  assert_string_equal(text, "ababababababababababababc");
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_compression_gives_the_same_text),
      cmocka_unit_test(the_highest_architecture_that_is_not_above_is_taken),
      cmocka_unit_test(plain_ptx_is_copied),
      cmocka_unit_test(what_is_no_image_is_refused),
      cmocka_unit_test(a_cut_image_is_refused_and_not_read_beyond),
      cmocka_unit_test(a_wrong_byte_is_never_read_beyond),
      cmocka_unit_test(wrong_sizes_are_refused),
      cmocka_unit_test(unknown_forms_are_refused),
      cmocka_unit_test(broken_lz4_is_refused),
      cmocka_unit_test(matches_of_lz4_may_overlap),
  };
  return cmocka_run_group_tests_name("ptx_image", tests, setup, teardown);
}
