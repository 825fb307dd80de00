/* Versions of tables in device memory. */
#include "combo/far/far.h"

#include "base/status.h"

#include <stdlib.h>

md_kn_word *md_cb_far_words(md_cb_far *far, int64_t n)
{
    free(far->word);
    far->word = malloc((size_t)MD_MAX(n, 1) * sizeof *far->word);
    far->n = far->word ? n : 0;
    return far->word;
}

/* `is_ordered`: work that is enqueued on `stream` from now on comes after all that reads the version. */
static void drop(md_cb_far *far, md_dev *dev, md_stream stream, bool is_ordered)
{
    const md_dev_table_end end = far->by_graph                                            ? MD_DEV_TABLE_KEEP
                                 : !far->is_used                                          ? MD_DEV_TABLE_UNUSED
                                 : is_ordered && !far->by_others && far->stream == stream ? MD_DEV_TABLE_AFTER_STREAM
                                                                                          : MD_DEV_TABLE_AFTER_ALL;
    if (far->there)
        dev->ops->table_free(dev, far->there, end, stream);
    far->there = NULL;
    far->is_used = far->by_others = far->by_graph = false;
}

md_status md_cb_far_use(md_cb_far *far, md_ds_runtime *runtime, md_stream stream)
{
    md_dev *dev = runtime->dev;
    const bool is_capturing = dev->ops->table_make && md_ds_is_capturing(runtime, stream);
    if (!dev->ops->table_make)
        return MD_OK;
    if (far->word) {
        void *there = NULL;
        MD_TRY(dev->ops->table_make(&there, dev, far->word, (size_t)far->n * sizeof *far->word, !is_capturing));
        drop(far, dev, stream, !is_capturing);
        far->there = there;
        free(far->word);
        far->word = NULL;
    }
    far->by_graph |= is_capturing;
    far->by_others |= far->is_used && far->stream != stream;
    if (!far->is_used)
        far->stream = stream;
    far->is_used = true;
    return MD_OK;
}

void md_cb_far_finish(md_cb_far *far, const md_ds_runtime *runtime)
{
    drop(far, runtime->dev, NULL, false);
    free(far->word);
    far->word = NULL;
}
