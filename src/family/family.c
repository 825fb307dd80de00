/* The default config of a family, the name of a config, and loops over all configs. */
#include "family/family.h"

#include "base/dtype.h"
#include "base/status.h"

#include <inttypes.h>
#include <stdio.h>

bool md_fa_has_packed(const md_fa_target *target)
{
    const md_st_stage *st = md_fa_stage(target);
    for (int32_t i = 0; i < st->n_tensors; i++)
        if (md_dtype_is_packed(target->program->formula->tensor[st->tensor[i]].dtype))
            return true;
    return false;
}

bool md_fa_applies(const md_fa_family *family, const md_fa_target *target)
{
    md_fa_spec spec;
    if (!family->takes_packed && md_fa_has_packed(target))
        return false;
    if (family->applies)
        return family->applies(target);
    const md_fa_config config = md_fa_default(family);
    return family->spec_of(spec.bytes, target, &config);
}

md_fa_config md_fa_default(const md_fa_family *family)
{
    md_fa_config config = {.custom = family->custom};
    for (int32_t i = 0; i < family->n_fields; i++)
        config.value[i] = family->field[i].initial;
    return config;
}

/* The values of a field that some config may have. */
typedef struct values {
    int32_t n, value[MD_FA_MAX_VALUES];
} values;

static void list_values(values *out, const md_fa_target *target, const md_fa_family *family, int32_t field,
                        const int64_t *size, bool takes_more)
{
    const md_fa_field *f = &family->field[field];
    out->n = 0;
    for (int32_t i = 0; i < f->n + (takes_more ? f->more : 0); i++)
        if (!family->takes || family->takes(target, field, f->value[i], size))
            out->value[out->n++] = f->value[i];
}

static void each(const md_fa_target *target, const md_fa_family *family, const int64_t *size, bool takes_more,
                 bool (*fn)(void *user, const md_fa_config *config), void *user)
{
    values of[MD_FA_MAX_FIELDS];
    int32_t at[MD_FA_MAX_FIELDS] = {0}, i;
    for (i = 0; i < family->n_fields; i++) {
        list_values(&of[i], target, family, i, size, takes_more);
        if (of[i].n == 0)
            return;
    }
    do {
        md_fa_config config = {.custom = family->custom};
        for (i = 0; i < family->n_fields; i++)
            config.value[i] = of[i].value[at[i]];
        if (md_fa_legal(family, target, &config, size) && !fn(user, &config))
            return;
        for (i = family->n_fields - 1; i >= 0 && ++at[i] == of[i].n; i--)
            at[i] = 0;
    } while (i >= 0);
}

void md_fa_each(const md_fa_target *target, const md_fa_family *family, const int64_t *size,
                bool (*fn)(void *user, const md_fa_config *config), void *user)
{
    each(target, family, size, false, fn, user);
}

void md_fa_each_all(const md_fa_target *target, const md_fa_family *family, const int64_t *size,
                    bool (*fn)(void *user, const md_fa_config *config), void *user)
{
    each(target, family, size, true, fn, user);
}

/* ---- Callbacks: the family's own, else those of its kind. */

static bool spec_of(md_fa_spec *out, const md_fa_family *family, const md_fa_target *target, const md_fa_config *config)
{
    return family->spec_of(out->bytes, target, config);
}

bool md_fa_legal(const md_fa_family *family, const md_fa_target *target, const md_fa_config *config,
                 const int64_t *size)
{
    return !family->legal || family->legal(target, config, size);
}

void md_fa_envelope_of(md_kn_envelope *out, const md_fa_family *family, const md_fa_target *target,
                       const md_fa_config *config)
{
    md_fa_spec spec;
    *out = (md_kn_envelope){0};
    if (family->envelope)
        family->envelope(out, target, config);
    else if (family->kind && family->kind->envelope && spec_of(&spec, family, target, config))
        family->kind->envelope(out, target, spec.bytes);
}

bool md_fa_fix(md_fa_fixed *out, const md_fa_family *family, const md_fa_target *target, const md_fa_config *config)
{
    md_fa_spec spec;
    if (family->fix) {
        family->fix(out, target, config);
        return true;
    }
    if (!family->kind || !family->kind->features)
        return false;
    if (!family->kind->fix)
        return family->spec_of(out->bytes, target, config);
    if (!spec_of(&spec, family, target, config))
        return false;
    family->kind->fix(out, target, spec.bytes);
    return true;
}

const void *md_fa_fixed_of(md_fa_fixed *room, const md_fa_family *family, const md_fa_target *target,
                           const md_fa_config *config)
{
    if (target->fixed)
        return target->fixed->bytes;
    return md_fa_fix(room, family, target, config) ? room->bytes : NULL;
}

void md_fa_features_of(md_fa_features *out, const md_fa_family *family, const md_fa_target *target,
                       const md_fa_config *config, const int64_t *size)
{
    md_fa_fixed room;
    if (family->features) {
        family->features(out, target, config, size);
        return;
    }
    const void *known = md_fa_fixed_of(&room, family, target, config);
    if (known)
        family->kind->features(out, target, known, size);
}

md_status md_fa_emit(md_kn_source *out, const md_fa_family *family, const md_fa_target *target,
                     const md_fa_config *config)
{
    md_fa_spec spec;
    if (family->emit)
        return family->emit(out, target, config);
    if (!spec_of(&spec, family, target, config))
        return md_fail(MD_INTERNAL, "family %s does not take this stage", family->name);
    if (family->kind->checks_config && !md_fa_legal(family, target, config, NULL))
        return md_fail(MD_UNSUPPORTED, "%s has no kernel of these parameters", family->name);
    return family->kind->emit(out, target, spec.bytes);
}

void md_fa_geometry_of(md_kn_geometries *out, const md_fa_family *family, const md_fa_target *target,
                       const md_fa_config *config, const md_kn_shape *shape)
{
    md_fa_spec spec;
    if (family->geometry) {
        family->geometry(out, target, config, shape);
        return;
    }
    *out = (md_kn_geometries){0};
    out->launch[0].grain = 1;
    if (spec_of(&spec, family, target, config))
        family->kind->geometry(out, target, spec.bytes, shape);
}

/* ---- Names */

/* True if the name leaves the field out. */
static bool is_left_out(const md_fa_field *field, int32_t value)
{
    return (field->is_quiet || (field->n == 1 && field->more > 0)) && value == field->initial;
}

void md_fa_name(char out[MD_FA_NAME], const md_fa_family *family, const md_fa_config *config)
{
    size_t used = (size_t)snprintf(out, MD_FA_NAME, "%s", family->name);
    char mark = '/';
    for (int32_t i = 0; i < family->n_fields && used < MD_FA_NAME; i++) {
        const md_fa_field *field = &family->field[i];
        if (is_left_out(field, config->value[i]))
            continue;
        used += (size_t)snprintf(out + used, MD_FA_NAME - used, "%c%s%" PRId32, mark, field->name, config->value[i]);
        mark = '_';
    }
}
