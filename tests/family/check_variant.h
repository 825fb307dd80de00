/* One variant of a formula on the host device, which must serve it and be right. */
#ifndef MD_TESTS_FAMILY_CHECK_VARIANT_H
#define MD_TESTS_FAMILY_CHECK_VARIANT_H

#include "family/host_device.h"
#include "support/variant.h"

#include <stdio.h>
#include <string.h>

/* A tile of packed products that registers of the device can hold; families' defaults are those for 64 bytes. */
static inline const char *host_tile(void)
{
    const int32_t bytes = dev->facts.vector_bytes;
    return bytes == 64 ? "rows12_vecs2" : bytes == 32 ? "rows6_vecs2" : "rows4_vecs2";
}

static inline void check_variant(const variant_case *c, const char *variant)
{
    static char text[1024];
    bool skipped = false;
    if (!variant_check(text, sizeof text, &skipped, dev, c, variant))
        fail_msg("%s", text);
    if (skipped)
        fail_msg("%s was skipped for %s (%s)", variant, c->formula, c->dims);
}

/* "gemm" and "gemm/..." get a tile for the device. */
static inline void check_gemm(const variant_case *c, const char *variant)
{
    char with_tile[64];
    if (!strcmp(variant, "gemm") || !strncmp(variant, "gemm/", 5)) {
        snprintf(with_tile, sizeof with_tile, "gemm/%s%s%s", host_tile(), variant[4] ? "_" : "",
                 variant[4] ? variant + 5 : "");
        variant = with_tile;
    }
    check_variant(c, variant);
}

#endif
