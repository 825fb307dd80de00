/* A trace of work: per step of a server, how many tokens it computes and how long their context is. */
#ifndef MDCTL_TRACE_H
#define MDCTL_TRACE_H

#include <stdbool.h>
#include <stdint.h>

enum { TRACE_MAX_STEPS = 400, TRACE_MAX_TOKENS = 256, TRACE_MAX_CONTEXT = 2048 };

typedef struct trace {
    int n;
    int64_t tokens[TRACE_MAX_STEPS]; /* 1..TRACE_MAX_TOKENS */
    int64_t context[TRACE_MAX_STEPS]; /* 1..TRACE_MAX_CONTEXT */
    char origin[256]; /* a sentence for people: where it is from, by which rule */
} trace;

/** A made-up day: a decoding batch that grows and shrinks, with prompts coming in chunks. Deterministic for a seed. */
void trace_generate(trace *out, uint64_t seed, int steps);
/** Reads one batch size a line, or an Azure LLM inference trace (TIMESTAMP,ContextTokens,GeneratedTokens). False
 * after a message. */
bool trace_read(trace *out, const char *path, int steps);

#endif
