/* Reads what md_explain says. */
#include "common/explained.h"

#include "common/cli.h"
#include "common/results.h"

#include <stdlib.h>
#include <string.h>

json_t *explained(md_op *op, const char *sizes)
{
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    if (!file)
        return NULL;
    const md_status s = md_explain(op, sizes, 1, cli_write, file);
    json_t *out = fclose(file) == 0 && s == MD_OK ? json_loads(text, 0, NULL) : NULL;
    free(text);
    return out;
}

/* md_explain calls the variant of a stage its pick. */
static bool is_idle(const json_t *stage)
{
    return !strcmp(result_word(stage, "pick"), "idle") || !strcmp(result_word(stage, "variant"), "idle");
}

roofline roofline_of(const json_t *stages)
{
    size_t at;
    json_t *stage;
    double most = -1.0;
    bool is_known = true;
    roofline out = {0.0, "", ""};
    json_array_foreach(stages, at, stage)
    {
        const json_t *roof = json_object_get(stage, "roof");
        const double us = result_number(roof, "us"), beyond = result_number(roof, "model_us") - us;
        is_known &= json_is_object(roof) || is_idle(stage);
        out.us += us;
        if (json_is_object(roof) && beyond > most) {
            most = beyond;
            out.limit = result_word(roof, "limit");
            out.reason = result_word(roof, "reason");
        }
    }
    out.us = is_known ? out.us : 0.0;
    return out;
}
