#ifndef MD_TESTS_STAGE_PRINT_PROGRAM_H
#define MD_TESTS_STAGE_PRINT_PROGRAM_H

#include "base/strbuf.h"
#include "stage/stage.h"

/** One block of lines per stage. @n is result n of the stage. */
void print_program(md_strbuf *out, const md_st_program *program);

#endif
