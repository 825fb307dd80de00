/* How large chains are. */
#include "stage/stage.h"

#include <math.h>

static bool shares(const md_st_program *p, const md_st_chain *c, const int64_t *size)
{
    return c->share > 1 && md_st_size(p, c->share_index, size) % c->share == 0;
}

void md_st_chain_measure(md_st_chain_sizes *out, const md_st_program *program, int32_t stage, const int64_t *size)
{
    const md_st_stage *s = &program->stage[stage];
    const md_st_chain *c = s->chain;
    const int64_t share = shares(program, c, size) ? c->share : 1;
    *out = (md_st_chain_sizes){.batches = md_st_points(program, c->n_batch, c->batch, size) / share,
                               .rows = md_st_points(program, c->n_rows, c->rows, size) * share,
                               .keys = md_st_size(program, s->axis, size),
                               .depth = md_st_points(program, c->n_depth, c->depth, size),
                               .columns = md_st_points(program, c->n_columns, c->columns, size)};
}

/* A bound along the rows: `at` the first of them, and how far it moves to behind the last. */
typedef struct slope {
    bool is_end, is_whole;
    double at, by;
} slope;

/* False where sizes do not tell it. */
static bool slope_of(slope *out, const md_st_program *p, const md_st_bound *b, const int64_t *size)
{
    *out = (slope){b->is_end, b->is_whole, 0, 0};
    for (int32_t i = 0; i < b->n; i++) {
        const md_fx_node *t = b->term[i].term;
        const double coef = (double)b->term[i].coef;
        int64_t value = 1;
        if (t && t->kind == MD_FX_INDEX)
            out->by += coef * (double)(md_st_size(p, t->id, size) - 1);
        else if (t && !md_fx_value_of_sizes(&value, size, t))
            return false;
        else
            out->at += coef * (double)value;
    }
    return true;
}

double md_st_chain_part(const md_st_program *program, int32_t stage, const int64_t *size)
{
    enum { PLACES = 9 };
    const md_st_chain *c = program->stage[stage].chain;
    const double keys = (double)md_st_size(program, program->stage[stage].axis, size);
    slope bound[MD_ST_MAX_GUARDS];
    int32_t n = 0;
    double sum = 0;
    for (int32_t i = 0; i < c->n_bounds; i++)
        n += slope_of(&bound[n], program, &c->bound[i], size);
    for (int32_t k = 0; k < PLACES && n > 0; k++) {
        double begin = 0, end = keys;
        for (int32_t i = 0; i < n; i++) {
            const double limit = bound[i].at + bound[i].by * ((k + 0.5) / PLACES);
            if (bound[i].is_whole)
                end = limit > 0 ? end : 0;
            else if (bound[i].is_end)
                end = fmin(end, limit);
            else
                begin = fmax(begin, limit);
        }
        sum += fmax(end - begin, 0) / PLACES;
    }
    return n == 0 || keys <= 0 ? 1 : fmin(1, sum / keys);
}
