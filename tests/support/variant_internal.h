/* What the files of variant.h share. */
#ifndef MD_TESTS_SUPPORT_VARIANT_INTERNAL_H
#define MD_TESTS_SUPPORT_VARIANT_INTERNAL_H

#include "support/variant.h"

#include "stage/stage.h"

typedef struct buffer {
    char *bytes, *before; /* what it held before the run, for gaps */
    size_t n_bytes;
} buffer;

typedef struct variant_bench {
    const variant_case *c;
    md_fx_formula *formula;
    md_st_program *program;
    md_dev *dev;
    int64_t size[MD_FX_MAX_DIMS];
    md_tensor tensor[MD_FX_MAX_TENSORS];
    buffer buffer[MD_FX_MAX_TENSORS];
    md_arg arg[MD_FX_MAX_ARGS];
    md_fx_binding binding;
    md_kn_shape shape;
    md_kn_call call;
    md_kn_report report; /* what was reported, wherever kernels wrote it */
    char *device[MD_FX_MAX_TENSORS]; /* the buffers on a device whose memory the CPU does not read; else NULL */
    bool is_left_out; /* of the part of all texts that is compiled */
    bool has_news; /* it was left out, but its text has what no text before had */
    uint64_t random;
} variant_bench;

/** Bytes from the first to the last element. */
size_t variant_span(const md_tensor *t);
/** Makes the data of b->c; false with a reason in `text`. */
bool variant_prepare(variant_bench *b, char *text, size_t n_text);
/** True if the CPU must not read the device's memory. */
bool variant_is_apart(const variant_bench *b);
/** Copies the buffers to such a device and makes a report there. */
md_status variant_send(variant_bench *b, md_dev_report *report);
md_status variant_bring_back(variant_bench *b, const md_dev_report *report);
/** With AddressSanitizer: makes reads beside the tensors fail, or allows them again. */
void variant_guard(const variant_bench *b, bool on);

/** True if a text has a line of its configuration, or two numbers in such lines, that no text before had. keeps: this
 * text is one of those from now on. */
bool variant_is_new(const md_kn_source *source, bool keeps);
/** The part that is compiled anyway: MD_TEST_EFFORT, one in twenty by default, by MD_TEST_SEED. */
bool variant_is_drawn(const variant_case *c, const md_fa_family *family, const md_fa_config *config);

#endif
