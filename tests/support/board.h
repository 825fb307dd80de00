/* Recorded times of all configs of a formula at some points (tools/record_board), and a simulated device that takes
 * them. */
#ifndef MD_TESTS_SUPPORT_BOARD_H
#define MD_TESTS_SUPPORT_BOARD_H

#include "base/table.h"
#include "support/devices/sim_device.h"
#include "stage/stage.h"
#include "tune/search/search.h"

enum { BOARD_POINTS = 128 };

typedef struct board {
    char formula[1024];
    md_dtype dtype;
    md_dev_facts facts;
    md_fx_formula *parsed;
    md_st_program *program; /* one stage is looked at: the first */
    int32_t n_points;
    md_tn_point point[BOARD_POINTS];
    double best_us[BOARD_POINTS];
    char best[BOARD_POINTS][MD_FA_NAME];
    int32_t n_configs[BOARD_POINTS];
    md_table *times; /* "point variant" -> double */
} board;

/** Reads a file. Its first line is {"formula": ..., "dtype": ..., "capability": 90}, each further one a point:
 * {"sizes": {...}, "ragged": false, "us": {VARIANT: TIME, ...}}. False after saying why on stderr. */
bool board_read(board *out, const char *path);
void board_finish(board *b);
/** Recorded us; negative where there is none. */
double board_us(const board *b, int32_t point, const char *variant);
/** The point of a shape; -1. */
int32_t board_point(const board *b, const int64_t *size);
/** A price for sim_device_options; user is the board. */
double board_price(void *user, const char *variant, const md_kn_call *call);

#endif
