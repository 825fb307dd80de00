/* Recorded times of all configs of a formula, read from a file, and a simulated device that takes them. */
#include "support/board.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool open_formula(board *b, const json_t *head)
{
    const char *formula = json_string_value(json_object_get(head, "formula")),
               *dtype = json_string_value(json_object_get(head, "dtype"));
    if (!formula || !dtype)
        return false;
    snprintf(b->formula, sizeof b->formula, "%s", formula);
    b->dtype = md_dtype_parse(dtype);
    const md_fx_options o = {.dtype = b->dtype};
    return md_dev_cuda_assume(&b->facts, (int32_t)json_integer_value(json_object_get(head, "capability"))) == MD_OK &&
           md_fx_formula_create(&b->parsed, formula, &o) == MD_OK && md_st_split(b->parsed) == MD_OK &&
           md_st_program_create(&b->program, b->parsed) == MD_OK;
}

static void read_point(md_tn_point *out, const board *b, const json_t *line)
{
    memset(out, 0, sizeof *out);
    out->is_ragged = json_is_true(json_object_get(line, "ragged"));
    for (int32_t d = 0; d < b->parsed->n_dims; d++) {
        const md_fx_dim *dim = &b->parsed->dim[d];
        out->size[d] =
            dim->size >= 0 ? dim->size : json_integer_value(json_object_get(json_object_get(line, "sizes"), dim->name));
    }
}

static int32_t add_point(board *b, const md_tn_point *p)
{
    for (int32_t i = 0; i < b->n_points; i++)
        if (!memcmp(&b->point[i], p, sizeof *p))
            return i;
    if (b->n_points == BOARD_POINTS)
        return -1;
    b->point[b->n_points] = *p;
    b->best_us[b->n_points] = INFINITY;
    return b->n_points++;
}

static void key_of(char out[MD_FA_NAME + 16], int32_t point, const char *variant)
{
    snprintf(out, MD_FA_NAME + 16, "%d %s", point, variant);
}

static void take_time(board *b, int32_t i, const char *variant, double us)
{
    char key[MD_FA_NAME + 16];
    double *own = us > 0.0 ? malloc(sizeof *own) : NULL;
    if (!own)
        return;
    *own = us;
    key_of(key, i, variant);
    void *old = NULL;
    if (md_table_put(b->times, key, strlen(key), own, &old) != MD_OK)
        free(own);
    free(old);
    b->n_configs[i] += old == NULL;
    if (us < b->best_us[i]) {
        b->best_us[i] = us;
        snprintf(b->best[i], sizeof b->best[i], "%s", variant);
    }
}

static void take_point(board *b, json_t *line)
{
    const char *variant;
    json_t *us;
    md_tn_point p;
    read_point(&p, b, line);
    const int32_t i = add_point(b, &p);
    json_object_foreach(json_object_get(line, "us"), variant, us) if (i >= 0)
        take_time(b, i, variant, json_number_value(us));
}

bool board_read(board *out, const char *path)
{
    memset(out, 0, sizeof *out);
    FILE *file = fopen(path, "r");
    out->times = md_table_create();
    if (!file || !out->times) {
        fprintf(stderr, "%s: cannot be read\n", path);
        return false;
    }
    json_t *head = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL);
    bool is_good = open_formula(out, head);
    json_decref(head);
    while (is_good) {
        json_t *line = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL);
        if (!line)
            break;
        take_point(out, line);
        json_decref(line);
    }
    fclose(file);
    if (!is_good)
        fprintf(stderr, "%s: its first line has no formula that is understood: %s\n", path, md_last_error());
    return is_good && out->n_points > 0;
}

void board_finish(board *b)
{
    md_table_destroy(&b->times, free);
    md_st_program_destroy(&b->program);
    md_fx_formula_destroy(&b->parsed);
}

double board_us(const board *b, int32_t point, const char *variant)
{
    char key[MD_FA_NAME + 16];
    key_of(key, point, variant);
    const double *us = md_table_find(b->times, key, strlen(key));
    return us ? *us : -1.0;
}

int32_t board_point(const board *b, const int64_t *size)
{
    for (int32_t i = 0; i < b->n_points; i++) {
        bool is_same = true;
        for (int32_t d = 0; d < b->parsed->n_dims; d++)
            is_same = is_same && (b->point[i].size[d] == size[d] || b->point[i].size[d] == 0);
        if (is_same)
            return i;
    }
    return -1;
}

double board_price(void *user, const char *variant, const md_kn_call *call)
{
    const board *b = user;
    const int32_t i = board_point(b, call->shape->size);
    return i < 0 ? -1.0 : board_us(b, i, variant);
}
