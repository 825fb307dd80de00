/* What envelopes refuse, without a device: a pinned config must not give wrong results. */
#include "family/cuda/target_fixture.h"

/* A block of A is packed by one vector of lanes: an envelope refuses higher tiles, whoever asks for them. */
static void high_tiles_are_refused(void **state)
{
    static const int64_t rows[] = {4, 6, 8, 12};
    static const char *const formulas[] = {"Y[i,j] = sum[k](A[i,k] * B[k,j])",
                                           "Y[i,j] = sum[k](A:f64[i,k] * B:f64[j,k])"};
    const md_kn_shape shape = {.size = {40, 40, 40}};
    (void)state;
    for (int c = 0; c < MD_COUNT(formulas) * 3 * MD_COUNT(rows); c++) {
        fixture f;
        char name[64];
        const md_fa_family *family = NULL;
        md_fa_config config;
        md_kn_envelope envelope;
        const int64_t height = rows[c % MD_COUNT(rows)];
        open_fixture(&f, formulas[c / MD_COUNT(rows) / 3], MD_F32);
        f.facts = (md_dev_facts){.kind = MD_DEV_HOST, .threads = 2};
        f.facts.vector_bytes = 16 << c / MD_COUNT(rows) % 3;
        snprintf(name, sizeof name, "gemm/rows%d", (int)height);
        assert_ok(md_fa_parse(&family, &config, MD_DEV_HOST, name));
        family->envelope(&envelope, &f.target, &config);
        const char *const miss = md_kn_envelope_miss(&envelope, &shape);
        if ((miss != NULL) != (height > f.facts.vector_bytes / 4))
            fail_msg("%s with vectors of %d bytes: %s", name, (int)f.facts.vector_bytes, miss ? miss : "taken");
        close_fixture(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(high_tiles_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
