/* Checks that files of wisdom still apply: `md_applies FILE...` makes the formula of each line's key, and checks on an
 * assumed H200 that the library asks for this very key and that the variant is a config that fits the point (exit
 * status 1 where one does not). It counts the variants whose text is still the one that was measured. */
#include "base/status.h"
#include "support/devices/sim_device.h"
#include "tune/search/search.h"
#include "tune/tune.h"
#include "tune/wisdom/line.h"
#include "device/open.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct world {
    md_dev_facts facts;
    md_pool *pool;
    md_dev *dev;
    md_bd *builder;
    int32_t n, n_measured, n_good, n_same; /* lines; of those with a time: that hold, that have the text of then */
} world;

static double price(void *user, const char *variant, const md_kn_call *call)
{
    (void)user, (void)variant, (void)call;
    return 1.0;
}

static bool world_open(world *w)
{
    memset(w, 0, sizeof *w);
    if (md_dev_cuda_assume(&w->facts, 90) != MD_OK || md_pool_create(&w->pool, 1) != MD_OK)
        return false;
    const sim_device_options o = {.facts = &w->facts, .price = price, .pool = w->pool};
    return sim_device_open(&w->dev, &o) == MD_OK && md_bd_create(&w->builder, w->dev) == MD_OK;
}

static void world_close(world *w)
{
    md_bd_destroy(&w->builder);
    md_dev_close(&w->dev);
    md_pool_destroy(&w->pool);
}

/* "FORMULA | stage 0 of 1 | bounds report | i=1 j=2 | aligned": the formula in place, the rest as a point. */
static bool take_key(char *key, int *stage, md_tn_point *point, const md_fx_formula **formula, md_fx_formula **made)
{
    char *rest = strstr(key, " | stage "), bounds[16] = "", name[64];
    if (!rest)
        return false;
    *rest = 0;
    int at = 0, n_stages;
    if (sscanf(rest + 1, "| stage %d of %d | bounds %15s |%n", stage, &n_stages, bounds, &at) < 3 || at == 0 ||
        md_fx_formula_create(made, key, NULL) != MD_OK)
        return false;
    *formula = *made;
    memset(point, 0, sizeof *point);
    for (int32_t d = 0; d < (*made)->n_dims; d++)
        point->size[d] = (*made)->dim[d].size >= 0 ? (*made)->dim[d].size : 0;
    long long size;
    for (const char *s = rest + 1 + at; sscanf(s, " %63[^= |]=%lld%n", name, &size, &at) == 2; s += at)
        for (int32_t d = 0; d < (*made)->n_dims; d++)
            if (!strcmp((*made)->dim[d].name, name))
                point->size[d] = size;
    point->is_ragged = strstr(rest + 1, "| ragged") != NULL;
    return true;
}

static bool holds(const md_fa_target *target, const md_fa_family *family, const md_fa_config *config,
                  const md_tn_point *point)
{
    md_kn_shape shape;
    md_kn_envelope envelope = {0};
    md_tn_shape(&shape, target->program, point->size);
    if (point->is_ragged)
        shape.aligned = shape.aligned16 = 0;
    md_fa_envelope_of(&envelope, family, target, config);
    return md_fa_legal(family, target, config, shape.size) && !md_kn_envelope_miss(&envelope, &shape);
}

static bool is_same_text(world *w, const md_fa_target *target, const md_fa_family *family, const md_fa_config *config,
                         md_digest128 then)
{
    md_bd_variant *v = NULL;
    md_digest128 now;
    const bool is_same = md_bd_variant_create(&v, w->builder, target, family, config) == MD_OK &&
                         md_bd_variant_digest(&now, v) == MD_OK && now.lo == then.lo && now.hi == then.hi;
    md_bd_variant_destroy(&v);
    return is_same;
}

/* True if the library looks there by this very key. */
static bool is_key_of(const char *key, const md_fa_target *target, const md_tn_point *point)
{
    char *today = NULL;
    const bool is_same = md_tn_key(&today, target, point->size, point->is_ragged) == MD_OK && !strcmp(key, today);
    free(today);
    return is_same;
}

static void look(world *w, md_tn_record *r)
{
    md_fx_formula *made = NULL;
    const md_fx_formula *formula = NULL;
    md_st_program *program = NULL;
    md_tn_point point;
    const md_fa_family *family = NULL;
    md_fa_config config;
    int stage = 0;
    w->n++;
    if (r->count == 0)
        return;
    w->n_measured++;
    char *key = strdup(r->key);
    bool is_good = key && take_key(key, &stage, &point, &formula, &made) && md_st_split(made) == MD_OK &&
                   md_st_program_create(&program, made) == MD_OK && stage < program->n_stages;
    const md_fa_target target = {
        .program = program, .stage = stage, .facts = &w->dev->facts, .allows_tf32 = strstr(r->key, " | tf32") != NULL};
    is_good = is_good && is_key_of(r->key, &target, &point) &&
              md_fa_parse_for(&family, &config, &target, r->variant) == MD_OK && md_fa_applies(family, &target) &&
              holds(&target, family, &config, &point);
    if (!is_good)
        fprintf(stderr, "%s: %s does not hold there any more\n", r->key, r->variant);
    w->n_good += is_good;
    w->n_same += is_good && is_same_text(w, &target, family, &config, r->source);
    md_st_program_destroy(&program);
    md_fx_formula_destroy(&made);
    free(key);
}

static bool read_file(world *w, const char *path)
{
    char *text = NULL;
    size_t room = 0;
    ssize_t n;
    FILE *file = fopen(path, "r");
    if (!file)
        return fprintf(stderr, "%s: cannot be read\n", path), false;
    while ((n = getline(&text, &room, file)) > 0) {
        md_tn_line line;
        if (text[0] != '{' || md_tn_line_read(&line, text, (size_t)n) != MD_OK)
            continue;
        if (!line.is_quarantine)
            look(w, &line.record);
        md_tn_line_finish(&line);
    }
    free(text);
    fclose(file);
    return true;
}

int main(int argc, char **argv)
{
    world w;
    bool is_good = world_open(&w);
    for (int i = 1; i < argc && is_good; i++)
        is_good = read_file(&w, argv[i]);
    printf("%d lines, %d with a time, of which %d hold, %d with the same text\n", (int)w.n, (int)w.n_measured,
           (int)w.n_good, (int)w.n_same);
    world_close(&w);
    return !(is_good && w.n_measured > 0 && w.n_good == w.n_measured);
}
