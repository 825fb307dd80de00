/* regret: how much slower automatic choices are than the best variant of all pools, over many shapes.
 *
 * A line of a board is "OP DTYPE key=value ...": count (shapes), seed and bytes (the most that a shape's tensors
 * have) say how shapes are drawn, a dim's range "i=1..65536" that it is drawn log-uniformly, one number that it is
 * fixed. static=LIST goes to the op; hints=LIST adds a mode that goes by the model at these hints, hints=suggest at
 * sixteen that are suggested for the line's shapes; trace=FILE with dim=NAME takes sizes and weights from lines
 * "size weight" instead of drawing, shapes=FILE shapes, one a line. */
#include "regret/regret.h"

#include <stdlib.h>
#include <string.h>

static void add_up(regret_mode *m, const regret_shape *shape, const regret_result *r)
{
    m->choosing_sum += m->choosing_us;
    m->n_failed += m->has_failed;
    if (m->has_failed)
        return;
    m->sum += m->regret;
    m->own_sum += m->own_regret;
    for (int i = 0; i < 2; i++)
        m->n_within[i] += m->own_regret <= (i ? 0.05 : 0.01);
    m->most = m->all.n == 0 || m->regret > m->most ? m->regret : m->most;
    timing_add(&m->all, m->regret);
    m->time += shape->weight * r->best_us * (1.0 + m->regret);
    m->best_time += shape->weight * r->best_us;
    if (!r->is_searched)
        return;
    m->space_sum += m->space_regret;
    m->space_time += shape->weight * r->space_us * (1.0 + m->space_regret);
    m->space_best += shape->weight * r->space_us;
}

static md_status study_shape(regret_study *study, const regret_line *l, const regret_shape *shape)
{
    regret_result r = {.best = "", .space_best = ""};
    study->shape = shape;
    md_status s = regret_place(study, shape->sizes);
    if (s == MD_UNSUPPORTED) {
        cli_fail("%s is left out: its tensors take more than %.1f GB", shape->sizes, study->arena_bytes / 1e9);
        return MD_OK;
    }
    for (int i = 0; i < study->n_modes && s == MD_OK; i++)
        s = regret_ask(study, &study->mode[i]);
    if (s == MD_OK && study->n_searched < study->o->space)
        s = regret_search(&r, study, shape->sizes);
    if (s == MD_OK)
        s = regret_measure(&r, study);
    if (s != MD_OK)
        return s;
    study->n_searched += r.is_searched;
    study->n_complete += r.is_complete;
    for (int i = 0; i < study->n_modes; i++)
        add_up(&study->mode[i], shape, &r);
    regret_print_shape(study, l, shape, &r);
    return MD_OK;
}

static md_status study_line(regret_study *study, const regret_line *l)
{
    int done = 0;
    char what[96];
    regret_shape *shape = calloc(REGRET_SHAPES, sizeof *shape);
    md_status s = shape ? regret_make_modes(study, l) : MD_OUT_OF_MEMORY;
    int n = s != MD_OK  ? 0
            : l->trace  ? regret_read_trace(shape, l)
            : l->shapes ? regret_read_shapes(shape, l, study->mode[0].op)
                        : regret_draw(shape, l, study->mode[0].op);
    if (s == MD_OK)
        s = regret_make_hinted(study, l, shape, n);
    if (s == MD_OK)
        s = regret_rivals(study, l);
    study->line = l;
    study->n_searched = study->n_complete = 0;
    for (int i = study->o->part - 1; i < n && s == MD_OK; i += study->o->n_parts, done++) {
        cli_progress_part(done, (double)(n - study->o->part + study->o->n_parts) / study->o->n_parts);
        cli_progress("%s %s: shape %d of %d", l->op, shape[i].sizes, i + 1, n);
        s = study_shape(study, l, &shape[i]);
        if (s != MD_OK)
            cli_fail("%s %s: %s", l->op, shape[i].sizes, md_last_error());
    }
    snprintf(what, sizeof what, "%s %s%s%s", l->op, md_dtype_name(l->dtype), l->trace ? " " : "",
             l->trace ? l->trace : "");
    for (int i = 0; i < study->n_modes; i++) {
        regret_print_sum(study, what, done, &study->mode[i]);
        regret_print_space_sum(study, what, &study->mode[i]);
    }
    for (int i = 0; i < study->n_modes; i++)
        md_op_destroy(&study->mode[i].op);
    study->n_modes = 0;
    regret_leave(study);
    free(shape);
    return s;
}

static int study_board(regret_study *study, const char *path)
{
    char line[1024];
    int status = CLI_OK;
    FILE *f = fopen(path, "r");
    if (!f)
        return cli_usage("cannot open the board '%s'", path);
    for (int number = 1; status == CLI_OK && fgets(line, sizeof line, f); number++) {
        regret_line l;
        line[strcspn(line, "#\n")] = 0;
        if (!line[strspn(line, " \t")])
            continue;
        if (!regret_parse(&l, line))
            status = cli_usage("%s:%d: expected \"OP DTYPE key=value ...\"", path, number);
        else if (study_line(study, &l) != MD_OK)
            status = cli_fail_md();
    }
    fclose(f);
    return status;
}

int cli_regret(const cli_options *o)
{
    int status = CLI_OK;
    if (o->n == 0)
        return cli_usage("regret takes boards: mdctl regret data/boards/regret_host.txt");
    regret_study *study = calloc(1, sizeof *study);
    if (!study)
        return cli_fail("out of memory");
    study->o = o;
    if (o->output && !(study->output = fopen(o->output, "w")))
        status = cli_fail("cannot write '%s'", o->output);
    if (status == CLI_OK && (cli_open_context(&study->context, o) != MD_OK || regret_open(study) != MD_OK))
        status = cli_fail_md();
    for (int i = 0; i < o->n && status == CLI_OK; i++)
        status = study_board(study, o->arg[i]);
    regret_close(study);
    cli_close_context(&study->context);
    status = cli_close_output(study->output, o->output, status);
    free(study);
    return status;
}
