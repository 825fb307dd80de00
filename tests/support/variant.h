/* Runs one variant of a formula on a device and compares it with the reference evaluator. */
#ifndef MD_TESTS_SUPPORT_VARIANT_H
#define MD_TESTS_SUPPORT_VARIANT_H

#include "device/device.h"
#include "expr/eval/eval.h"
#include "family/family.h"

typedef enum variant_layout {
    VARIANT_PACKED, /* row-major */
    VARIANT_PADDED, /* rows farther apart than they are long, data off any alignment */
    VARIANT_SPREAD, /* the last axis strided too */
    VARIANT_TURNED /* axes in reverse order in memory */
} variant_layout;

typedef struct variant_case {
    const char *formula;
    const char *sizes; /* static sizes and ranges; may be NULL */
    const char *dims; /* "b=3, n=100": of the dynamic dims; names that the formula does not have are skipped */
    md_dtype dtype; /* default f32 */
    md_bounds bounds;
    variant_layout layout;
    /* of integer data; both 0: -9 .. 9. Axes that only gathers reach have `high` elements (at least 1) */
    int64_t low, high;
    bool has_specials; /* some NaN, infinities, zeros of both signs, subnormals */
    bool turns; /* products run with their axes moved, where they may (md_st_turn) */
    bool is_unordered; /* duplicates in a scatter: any one writer may have won; not compared */
    double scale; /* of real data; 0: 2, so that it lies in -2 .. 2 */
    double tolerance; /* relative to max(1, |value|); 0: by dtype */
    bool moves_rounding; /* compared with the bounds of tolerance/bound.h, where conversions may be at another place */
    bool is_sure; /* never left out */
    uint64_t seed;
} variant_case;

/** Of all texts a part is checked: MD_TEST_EFFORT, one in twenty by default, by MD_TEST_SEED, and each that has
 * something new (variant_sample.c). The others count as right.
 * `variant` for every stage that it is made for (else nest). False with a reason in `text`; *skipped (may be NULL)
 * says that the variant does not apply to any stage, is not legal there, or its envelope does not hold, and nothing
 * was compared. */
bool variant_check(char *text, size_t n_text, bool *skipped, md_dev *dev, const variant_case *c, const char *variant);
/** Every legal config of every family that applies to some stage. Returns how many were compared, -1 after a
 * failure. */
int variant_check_all(char *text, size_t n_text, md_dev *dev, const variant_case *c, const char *family);
/** The text of the first launch. */
md_status variant_text(md_strbuf *out, md_dev *dev, const variant_case *c, const char *variant);

#endif
