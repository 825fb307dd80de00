/* Records for tests of the wisdom. */
#include "tune/wisdom_make.h"

md_tn_record wisdom_make(const char *key, md_tune rigor, bool is_complete, int32_t count, int which)
{
    md_tn_record r = {.us = rigor > MD_TUNE_OFF ? 1.5 * which : 0.0,
                      .spread = 0.25,
                      .count = count,
                      .rigor = rigor,
                      .is_complete = is_complete,
                      .source = {5, 6},
                      .date = 1700000000 + which};
    r.key = strdup(key);
    assert_non_null(r.key);
    snprintf(r.family, sizeof r.family, "row_looped");
    snprintf(r.variant, sizeof r.variant, "row_looped/lanes%d", which);
    for (int i = 0; i <= MD_TN_ENDLESS; i++) {
        md_tn_candidate c = {.verdict = (md_tn_verdict)i, .us = 10.0 + i, .spread = 0.5, .count = i};
        snprintf(c.name, sizeof c.name, "row_looped/vecs%d", i);
        assert_ok(md_tn_record_add(&r, &c));
    }
    return r;
}

md_tn_wisdom *wisdom_open(md_sr *store)
{
    md_tn_wisdom *w = NULL;
    assert_ok(md_tn_wisdom_create(&w));
    if (store)
        md_tn_wisdom_use_store(w, store, "device");
    return w;
}

void wisdom_put(md_tn_wisdom *w, const char *key, md_tune rigor, bool is_complete, int32_t count, int which)
{
    md_tn_record r = wisdom_make(key, rigor, is_complete, count, which);
    assert_ok(md_tn_wisdom_put(w, &r));
    md_tn_record_finish(&r);
}

int wisdom_which(md_tn_wisdom *w, const char *key, md_tune min_rigor)
{
    md_tn_record r = {0};
    int n = 0;
    if (md_tn_wisdom_find(&r, w, key, "row_looped", min_rigor) != MD_OK)
        return 0;
    assert_string_equal(r.key, key);
    assert_int_equal(sscanf(r.variant, "row_looped/lanes%d", &n), 1);
    md_tn_record_finish(&r);
    return n;
}
