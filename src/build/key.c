/* Keys of kernels: in a context, in the store and in bundles. */
#include "build/internal.h"

#include <string.h>

/* Digests tensor maps member by member: padding between members is undefined. */
static md_digest128 digest_of_maps(const md_kn_launch_source *source)
{
    uint16_t word[MD_KN_MAX_MAPS * (6 + MD_KN_MAP_RANK * (3 + MD_KN_MAP_DIMS) + 2 * MD_KN_MAP_AXES)];
    int32_t n = 0;
    for (const md_kn_map *m = source->map; m < source->map + source->n_maps; m++) {
        const uint8_t head[] = {m->tensor, m->dtype, m->swizzle, m->shrinks, m->is_copy};
        for (int32_t i = 0; i < MD_COUNT(head); i++)
            word[n++] = head[i];
        for (int32_t i = 0; i < MD_KN_MAP_RANK; i++) {
            word[n++] = m->n_dims[i];
            word[n++] = m->n_dims[i] > 0 ? m->axis[i] : 0;
            word[n++] = m->box[i];
            for (int32_t d = 0; d < m->n_dims[i]; d++)
                word[n++] = m->dim[i][d];
        }
        if (m->n_axes > 0)
            word[n++] = m->n_axes;
        for (int32_t i = 0; i < m->n_axes; i++) {
            word[n++] = m->axes[i];
            word[n++] = m->axes_box[i];
        }
    }
    return md_hash128(word, (size_t)n * sizeof *word);
}

md_digest128 md_bd_text_key(const md_dev *dev, const char *compiler, const md_kn_launch_source *source)
{
    struct {
        md_digest128 text, compiler, flags, maps;
        md_kn_host_function function;
        char entry[sizeof source->entry];
        int64_t device, code;
    } key;
    memset(&key, 0, sizeof key);
    key.device = dev->facts.kind;
    key.code = source->code;
    if (source->code == MD_KN_FUNCTION) {
        key.function = source->function;
    } else {
        key.text = md_hash128(md_strbuf_text(&source->text), source->text.size);
        key.compiler = md_hash128(compiler, strlen(compiler));
        key.flags = md_hash128(dev->facts.flags, strlen(dev->facts.flags));
        key.maps = digest_of_maps(source);
        memcpy(key.entry, source->entry, strnlen(source->entry, sizeof source->entry));
    }
    return md_hash128(&key, sizeof key);
}

md_digest128 md_bd_bundled_digest(const md_dev *dev, const md_kn_launch_source *source)
{
    return md_bd_text_key(dev, "", source);
}
