/* Versions of tables in device memory: when each may be freed. The device is made of a few functions here. */
#include "support/check.h"

#include "base/status.h"
#include "combo/far/far.h"

#include <stdbool.h>

static struct {
    int n_made, n_freed;
    bool may_wait; /* as the last table was made */
    const void *freed; /* the last one */
    md_dev_table_end end;
    md_stream stream;
    bool is_capturing, is_full;
    uint64_t table[8][4];
} device;

static md_status table_make(void **out, md_dev *dev, const void *from, size_t n_bytes, bool may_wait)
{
    (void)dev;
    assert_int_equal(n_bytes, sizeof device.table[0]);
    if (device.is_full)
        return md_fail(MD_OUT_OF_MEMORY, "the device is full");
    memcpy(device.table[device.n_made], from, n_bytes);
    *out = device.table[device.n_made++];
    device.may_wait = may_wait;
    return MD_OK;
}

static void table_free(md_dev *dev, void *table, md_dev_table_end end, md_stream stream)
{
    (void)dev;
    device.n_freed++;
    device.freed = table;
    device.end = end;
    device.stream = stream;
}

static bool is_capturing(md_dev *dev, md_stream stream)
{
    (void)dev;
    (void)stream;
    return device.is_capturing;
}

static const md_dev_ops ops = {.table_make = table_make, .table_free = table_free, .is_capturing = is_capturing};
static md_dev dev = {.ops = &ops};
static md_ds_runtime runtime = {.dev = &dev};
static char streams[2];

static void fill(md_cb_far *far, int64_t value)
{
    md_kn_word *word = md_cb_far_words(far, 4);
    assert_non_null(word);
    for (int i = 0; i < 4; i++)
        word[i].i = value + i;
}

static void use(md_cb_far *far, int stream)
{
    assert_ok(md_cb_far_use(far, &runtime, (md_stream)&streams[stream]));
}

static int clear(void **state)
{
    (void)state;
    memset(&device, 0, sizeof device);
    return 0;
}

/* ---- Tests */

static void versions_follow_their_stream(void **state)
{
    md_cb_far far = {0};
    (void)state;
    fill(&far, 10);
    use(&far, 0);
    use(&far, 0);
    assert_int_equal(device.n_made, 1);
    assert_true(device.may_wait && far.there == device.table[0] && device.table[0][3] == 13);
    fill(&far, 20);
    assert_int_equal(device.n_freed, 0);
    use(&far, 0);
    assert_int_equal(device.n_made, 2);
    assert_true(device.n_freed == 1 && device.freed == device.table[0] && device.table[0][0] == 10);
    assert_int_equal(device.end, MD_DEV_TABLE_AFTER_STREAM);
    assert_ptr_equal(device.stream, &streams[0]);
    md_cb_far_finish(&far, &runtime); /* the stream may be gone */
    assert_int_equal(device.end, MD_DEV_TABLE_AFTER_ALL);
    assert_int_equal(device.n_freed, 2);
}

static void several_streams_are_waited_for(void **state)
{
    md_cb_far far = {0};
    (void)state;
    fill(&far, 1);
    use(&far, 0);
    use(&far, 1);
    use(&far, 0);
    fill(&far, 2);
    use(&far, 0);
    assert_int_equal(device.end, MD_DEV_TABLE_AFTER_ALL);
    fill(&far, 3);
    use(&far, 1); /* the version before was the other stream's alone */
    assert_int_equal(device.n_freed, 2);
    assert_int_equal(device.end, MD_DEV_TABLE_AFTER_ALL);
    md_cb_far_finish(&far, &runtime);
}

static void graphs_keep_their_versions(void **state)
{
    md_cb_far far = {0};
    (void)state;
    fill(&far, 1);
    use(&far, 0);
    device.is_capturing = true;
    fill(&far, 2);
    use(&far, 0); /* nothing is freed in the order of a stream that is captured */
    assert_false(device.may_wait);
    assert_int_equal(device.end, MD_DEV_TABLE_AFTER_ALL);
    device.is_capturing = false;
    use(&far, 0);
    fill(&far, 3);
    use(&far, 0);
    assert_ptr_equal(device.freed, device.table[1]);
    assert_int_equal(device.end, MD_DEV_TABLE_KEEP);
    device.is_capturing = true;
    use(&far, 0); /* captured though it was made before */
    device.is_capturing = false;
    md_cb_far_finish(&far, &runtime);
    assert_int_equal(device.end, MD_DEV_TABLE_KEEP);
    assert_int_equal(device.n_freed, 3);
}

/* Without memory for a new version the old one stays; the new one is made at the next use. */
static void a_full_device_may_be_asked_again(void **state)
{
    md_cb_far far = {0};
    (void)state;
    fill(&far, 1);
    use(&far, 0);
    fill(&far, 2);
    device.is_full = true;
    assert_fails(md_cb_far_use(&far, &runtime, NULL), MD_OUT_OF_MEMORY, "full");
    assert_ptr_equal(far.there, device.table[0]);
    assert_int_equal(device.n_freed, 0);
    device.is_full = false;
    use(&far, 0);
    assert_ptr_equal(far.there, device.table[1]);
    assert_int_equal(device.table[1][0], 2);
    assert_ptr_equal(device.freed, device.table[0]);
    md_cb_far_finish(&far, &runtime);
    assert_int_equal(device.n_freed, 2);
}

static void what_was_never_made_is_not_freed(void **state)
{
    md_cb_far far = {0};
    (void)state;
    fill(&far, 1);
    fill(&far, 2);
    md_cb_far_finish(&far, &runtime);
    assert_int_equal(device.n_made + device.n_freed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(versions_follow_their_stream, clear),
        cmocka_unit_test_setup(several_streams_are_waited_for, clear),
        cmocka_unit_test_setup(graphs_keep_their_versions, clear),
        cmocka_unit_test_setup(a_full_device_may_be_asked_again, clear),
        cmocka_unit_test_setup(what_was_never_made_is_not_freed, clear),
    };
    return cmocka_run_group_tests_name("combo_far", tests, NULL, NULL);
}
