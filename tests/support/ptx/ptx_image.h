// The PTX text of a module, from the image that a program passes to cuModuleLoadData: a fatbin of
// nvcc, or plain PTX.
//
// A fatbin is a header and a row of entries, one for each architecture. An entry is SASS or PTX,
// and nvcc compresses PTX: with zstd since CUDA 12.8, with LZ4 before or in the mode "speed". The
// layout is not documented. The fields that are read here are the ones that public readers of
// fatbins agree on.
#ifndef RONDO_TESTS_SUPPORT_PTX_PTX_IMAGE_H
#define RONDO_TESTS_SUPPORT_PTX_PTX_IMAGE_H

#include <stddef.h>
#include <stdint.h>

// The longest text that is accepted, in bytes. The kernels of Rondo have 1.5 MB.
#define PTX_IMAGE_TEXT_BYTES (64u << 20)

// Writes the PTX text that a device of architecture `arch` would compile: of the PTX in the image
// the one for the highest architecture that is not above `arch`.
//   image  a fatbin, whose header tells its length, or PTX text that ends with a zero
//   arch   ten times the compute capability: 80, 90, 103
//   text   receives the text with a zero at its end; the caller frees it with free()
//   why    receives one line if the call fails
// Any thread may call it. Returns RONDO_SUCCESS; RONDO_ERR_INVALID: the image is broken;
// RONDO_ERR_UNSUPPORTED: the image has no PTX for `arch`, or its compression is not known;
// RONDO_ERR_NO_MEMORY. Where it fails, `text` stays as it was.
int ptx_image_text(const void *image, uint32_t arch, char **text, char *why, size_t why_bytes);

#endif // RONDO_TESTS_SUPPORT_PTX_PTX_IMAGE_H
