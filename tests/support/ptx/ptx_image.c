#include "tests/support/ptx/ptx_image.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "rondo/status.h"

#define FATBIN_MAGIC 0xba55ed50u
#define FATBIN_VERSION 1u
#define KIND_PTX 1u
#define FLAG_LZ4 0x2000u
#define FLAG_ZSTD 0x8000u
// Any of these flags, or a text length, says that a payload is compressed.
#define FLAGS_COMPRESSED (0x1000u | FLAG_LZ4 | 0x4000u | FLAG_ZSTD)

struct fatbin_head {
  uint32_t magic;
  uint16_t version;
  uint16_t head_bytes;
  uint64_t entries_bytes;
};

struct fatbin_entry {
  uint16_t kind;
  uint16_t version;
  uint32_t head_bytes;
  uint64_t payload_bytes; // with padding
  uint32_t compressed_bytes;
  uint32_t options_offset;
  uint16_t minor, major; // version of PTX
  uint32_t arch;
  uint32_t name_offset, name_bytes;
  uint64_t flags;
  uint64_t zero;
  uint64_t text_bytes; // decompressed
};

_Static_assert(sizeof(struct fatbin_head) == 16, "as in the file");
_Static_assert(sizeof(struct fatbin_entry) == 64, "as in the file");

struct refusal {
  char *why;
  size_t bytes;
};

static int image_refuse(const struct refusal *to, int status, const char *line, uint64_t value) {
  int length = snprintf(to->why, to->bytes, "image: ");
  if (length > 0 && (size_t)length < to->bytes)
    snprintf(to->why + length, to->bytes - (size_t)length, line, (unsigned long long)value);
  return status;
}

// One length of LZ4: `nibble`, and if it is 15 the bytes that follow, up to one that is not 255.
static bool lz4_try_length(const uint8_t **at, const uint8_t *end, uint32_t nibble,
                           uint64_t *length) {
  *length = nibble;
  if (nibble < 15)
    return true;
  uint8_t more = 255;
  while (more == 255) {
    if (*at == end)
      return false;
    more = *(*at)++;
    *length += more;
  }
  return true;
}

// Copies one match of LZ4: `length` bytes from `offset` bytes back. The ranges may overlap.
static bool lz4_try_match(uint8_t *to, uint64_t done, uint64_t bytes, uint32_t offset,
                          uint64_t length) {
  if (offset == 0 || offset > done || length > bytes - done)
    return false;
  for (uint64_t i = 0; i < length; i++)
    to[done + i] = to[done + i - offset];
  return true;
}

// Decompresses one block of LZ4, which must give `bytes` bytes exactly.
static bool lz4_try_decompress(const uint8_t *at, uint64_t compressed_bytes, uint8_t *to,
                               uint64_t bytes) {
  const uint8_t *end = at + compressed_bytes;
  uint64_t done = 0;
  while (at < end) {
    const uint32_t token = *at++;
    uint64_t length = 0;
    if (!lz4_try_length(&at, end, token >> 4, &length) || length > (uint64_t)(end - at) ||
        length > bytes - done)
      return false;
    memcpy(to + done, at, length);
    at += length;
    done += length;
    if (at == end) // the last sequence has no match
      return done == bytes;
    if (end - at < 2)
      return false;
    const uint32_t offset = at[0] | (uint32_t)at[1] << 8;
    at += 2;
    if (!lz4_try_length(&at, end, token & 15, &length) ||
        !lz4_try_match(to, done, bytes, offset, length + 4))
      return false;
    done += length + 4;
  }
  return false;
}

static bool payload_try_decompress(const struct fatbin_entry *e, const uint8_t *payload, char *to,
                                   uint64_t bytes) {
  if (e->flags & FLAG_ZSTD)
    return ZSTD_decompress(to, bytes, payload, e->compressed_bytes) == bytes;
  if (e->flags & FLAG_LZ4)
    return lz4_try_decompress(payload, e->compressed_bytes, (uint8_t *)to, bytes);
  memcpy(to, payload, bytes);
  return true;
}

// Writes the text of an entry whose payload lies inside the image.
static int entry_text(const struct fatbin_entry *e, const uint8_t *payload, char **text,
                      const struct refusal *refusal) {
  const bool is_compressed = (e->flags & FLAGS_COMPRESSED) != 0;
  const uint64_t bytes = is_compressed ? e->text_bytes : e->payload_bytes;
  if (is_compressed && !(e->flags & (FLAG_ZSTD | FLAG_LZ4)))
    return image_refuse(refusal, RONDO_ERR_UNSUPPORTED,
                        "the PTX is neither zstd nor LZ4: flags %#llx", e->flags);
  if (is_compressed && e->compressed_bytes > e->payload_bytes)
    return image_refuse(refusal, RONDO_ERR_INVALID,
                        "%llu compressed bytes are more than the payload has", e->compressed_bytes);
  if (bytes == 0 || bytes > PTX_IMAGE_TEXT_BYTES)
    return image_refuse(refusal, RONDO_ERR_INVALID, "a PTX text of %llu bytes is not accepted",
                        bytes);
  char *made = malloc(bytes + 1);
  if (!made)
    return image_refuse(refusal, RONDO_ERR_NO_MEMORY, "no memory for %llu bytes of PTX", bytes);
  if (!payload_try_decompress(e, payload, made, bytes)) {
    free(made);
    return image_refuse(refusal, RONDO_ERR_INVALID,
                        "the compressed PTX does not give the %llu bytes that it should", bytes);
  }
  made[bytes] = 0;
  *text = made;
  return RONDO_SUCCESS;
}

// Writes the PTX entry for the highest architecture up to `arch`; `payload` is null if there is
// none.
static int fatbin_choose(const uint8_t *at, uint64_t left, uint32_t arch, struct fatbin_entry *best,
                         const uint8_t **payload, const struct refusal *refusal) {
  *payload = NULL;
  while (left > 0) {
    struct fatbin_entry e;
    if (left < sizeof e)
      return image_refuse(refusal, RONDO_ERR_INVALID, "an entry is cut short: %llu bytes", left);
    memcpy(&e, at, sizeof e);
    if (e.head_bytes < sizeof e || e.head_bytes > left || e.payload_bytes > left - e.head_bytes)
      return image_refuse(refusal, RONDO_ERR_INVALID,
                          "an entry does not fit in the %llu bytes that are left", left);
    if (e.kind == KIND_PTX && e.arch <= arch && (!*payload || e.arch > best->arch)) {
      *best = e;
      *payload = at + e.head_bytes;
    }
    at += e.head_bytes + e.payload_bytes;
    left -= e.head_bytes + e.payload_bytes;
  }
  return RONDO_SUCCESS;
}

static int fatbin_text(const void *image, uint32_t arch, char **text,
                       const struct refusal *refusal) {
  struct fatbin_head head;
  memcpy(&head, image, sizeof head);
  if (head.version != FATBIN_VERSION || head.head_bytes != sizeof head)
    return image_refuse(refusal, RONDO_ERR_UNSUPPORTED, "fatbins of version %llu are not known",
                        head.version);
  struct fatbin_entry best = {0};
  const uint8_t *payload = NULL;
  int status = fatbin_choose((const uint8_t *)image + sizeof head, head.entries_bytes, arch, &best,
                             &payload, refusal);
  if (status != RONDO_SUCCESS)
    return status;
  if (!payload)
    return image_refuse(refusal, RONDO_ERR_UNSUPPORTED, "no PTX for architecture %llu", arch);
  return entry_text(&best, payload, text, refusal);
}

// A copy of plain PTX, if its target is not above `arch`.
static int plain_text(const char *image, uint32_t arch, char **text,
                      const struct refusal *refusal) {
  const char *target = strstr(image, ".target sm_");
  if (!target)
    return image_refuse(refusal, RONDO_ERR_INVALID, "neither a fatbin nor PTX with a .target", 0);
  const unsigned long needed = strtoul(target + sizeof ".target sm_" - 1, NULL, 10);
  if (needed == 0 || needed > arch)
    return image_refuse(refusal, RONDO_ERR_UNSUPPORTED, "the PTX is for architecture %llu", needed);
  *text = strdup(image);
  return *text ? RONDO_SUCCESS
               : image_refuse(refusal, RONDO_ERR_NO_MEMORY, "no memory for a copy of PTX", 0);
}

int ptx_image_text(const void *image, uint32_t arch, char **text, char *why, size_t why_bytes) {
  const struct refusal refusal = {.why = why, .bytes = why_bytes};
  uint32_t magic = 0;
  // Plain text may be shorter than a magic number.
  for (uint32_t i = 0; i < sizeof magic && (i == 0 || ((const char *)image)[i - 1]); i++)
    magic |= (uint32_t)((const uint8_t *)image)[i] << 8 * i;
  if (magic == FATBIN_MAGIC)
    return fatbin_text(image, arch, text, &refusal);
  return plain_text(image, arch, text, &refusal);
}
