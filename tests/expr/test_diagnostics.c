/* Every diagnostic of the front end, with its exact text. */
#include "front_check.h"

typedef struct golden {
    const char *formula, *message;
} golden;

/* clang-format off */
static const golden goldens[] = {
    {"Y[b,n] = X[b,k] * W[n,k]",
     "1:14: index 'k' is not bound and not on the left side\n"
     "  Y[b,n] = X[b,k] * W[n,k]\n"
     "               ^"},
    {"Y[i] = foo(X[i])",
     "1:8: unknown function 'foo'\n"
     "  Y[i] = foo(X[i])\n"
     "         ^"},
    {"Y[i] = mx[j](X[i,j])",
     "1:8: there is no reduction 'mx'; did you mean 'max'?\n"
     "  Y[i] = mx[j](X[i,j])\n"
     "         ^"},
    {"Y[i,j] = softmax(X[i,j])",
     "1:10: unknown function 'softmax'; the catalogue has an op of that name, whose formula can be written here\n"
     "  Y[i,j] = softmax(X[i,j])\n"
     "           ^"},
    {"Y[i] = sotfplus(X[i])",
     "1:8: unknown function 'sotfplus'; did you mean 'softplus'?\n"
     "  Y[i] = sotfplus(X[i])\n"
     "         ^"},
    {"Y[i] = X[i] + bias; Z[i] = bias[i]",
     "1:15: 'bias' is a tensor: its indices are missing, bias[..]\n"
     "  Y[i] = X[i] + bias; Z[i] = bias[i]\n"
     "                ^"},
    {"scalar learning_rate; Y[i] = X[i] * learning_rat",
     "1:37: unknown name 'learning_rat'; a tensor needs its indices, a parameter 'scalar learning_rat;'; "
     "did you mean 'learning_rate'?\n"
     "  scalar learning_rate; Y[i] = X[i] * learning_rat\n"
     "                                      ^"},
    {"Y[i] = X[i] * lr",
     "1:15: unknown name 'lr'; a tensor needs its indices, a parameter 'scalar lr;'\n"
     "  Y[i] = X[i] * lr\n"
     "                ^"},
    {"Y[i] = X[jj]; Z[jj] = X[jj]",
     "1:10: index 'jj' is not bound and not on the left side\n"
     "  Y[i] = X[jj]; Z[jj] = X[jj]\n"
     "           ^"},
    {"Y[row] = X[rov]",
     "1:12: index 'rov' is not bound and not on the left side; did you mean 'row'?\n"
     "  Y[row] = X[rov]\n"
     "             ^"},
    {"Y[i] = 1 < X[i] < 2",
     "1:17: comparisons do not chain; write 'a < b and b < c'\n"
     "  Y[i] = 1 < X[i] < 2\n"
     "                  ^"},
    {"Y[i] = X[i] +",
     "1:14: expected an expression, but the formula ends here\n"
     "  Y[i] = X[i] +\n"
     "               ^"},
    {"Y[i] = (X[i]",
     "1:13: expected ')', but the formula ends here\n"
     "  Y[i] = (X[i]\n"
     "              ^"},
    {"Y[i] = X[i",
     "1:11: expected ',' or ']', but the formula ends here\n"
     "  Y[i] = X[i\n"
     "            ^"},
    {"Y[i] = max(X[i], 1",
     "1:19: expected ',' or ')', but the formula ends here\n"
     "  Y[i] = max(X[i], 1\n"
     "                    ^"},
    {"Y[i] X[i]",
     "1:6: expected '=' before 'X'\n"
     "  Y[i] X[i]\n"
     "       ^"},
    {"Y = X[i]",
     "1:3: expected '[' (a scalar result is written L[]) before '='\n"
     "  Y = X[i]\n"
     "    ^"},
    {"Y[i] = X[i] Z[i]",
     "1:13: expected an operator or ';' before 'Z'\n"
     "  Y[i] = X[i] Z[i]\n"
     "              ^"},
    {"Y[i] = X[i] @ 2",
     "1:13: unexpected character '@'\n"
     "  Y[i] = X[i] @ 2\n"
     "              ^"},
    {"Y[i] = X[i] ^ 2",
     "1:13: unexpected '^'; write pow(a, b)\n"
     "  Y[i] = X[i] ^ 2\n"
     "              ^"},
    {"Y[i] = !X[i]",
     "1:8: unexpected '!'; write 'not', or '!=' to compare\n"
     "  Y[i] = !X[i]\n"
     "         ^"},
    {"Y[i] = X[i] & X[i]",
     "1:13: unexpected '&'; write 'and'\n"
     "  Y[i] = X[i] & X[i]\n"
     "              ^"},
    {"Y[i] = 2x",
     "1:9: a number runs into the name 'x...'; put a sign between\n"
     "  Y[i] = 2x\n"
     "          ^"},
    {"Y[i] = 99999999999999999999",
     "1:8: the number is larger than 9223372036854775807\n"
     "  Y[i] = 99999999999999999999\n"
     "         ^"},
    {"Y[i] = 1e999",
     "1:8: the number is too large; infinity is written inf\n"
     "  Y[i] = 1e999\n"
     "         ^"},
    {"Y[i] = i + (9223372036854775807 + 1)",
     "1:33: the constant does not fit in 64 bits\n"
     "  Y[i] = i + (9223372036854775807 + 1)\n"
     "                                  ^"},
    {"Y[i] = i + 1 // 0",
     "1:14: division by zero\n"
     "  Y[i] = i + 1 // 0\n"
     "               ^"},
    {"Y[i] = X[i] * 1e300",
     "1:15: the number 1e+300 is too large for f32; write inf, or f64(..)\n"
     "  Y[i] = X[i] * 1e300\n"
     "                ^"},
    {"Y[i] = X[i] + X[i,i]",
     "1:15: 'X' has 2 axes here, but 1 at 1:8\n"
     "  Y[i] = X[i] + X[i,i]\n"
     "                ^"},
    {"Y:f33[i] = X[i]",
     "1:3: 'f33' is no dtype; did you mean 'f32'?\n"
     "  Y:f33[i] = X[i]\n"
     "    ^"},
    {"Y:f8e4m3[i] = X[i]",
     "1:3: dtype f8e4m3 is reserved: nothing computes with it yet\n"
     "  Y:f8e4m3[i] = X[i]\n"
     "    ^"},
    {"Y[i] = i8(X[i])",
     "1:8: dtype i8 is reserved: nothing computes with it yet\n"
     "  Y[i] = i8(X[i])\n"
     "         ^"},
    {"Y[i] = X:f16[i] + X:bf16[i]",
     "1:19: 'X' is declared bf16 here, but f16 before\n"
     "  Y[i] = X:f16[i] + X:bf16[i]\n"
     "                    ^"},
    {"Y[i] = X[i]; Y[i] = Z[i]",
     "1:14: 'Y' is assigned twice; the first time at 1:1\n"
     "  Y[i] = X[i]; Y[i] = Z[i]\n"
     "               ^"},
    {"Y[i] = X[i]; X[i] = Z[i]",
     "1:8: 'X' is read before it is written at 1:14; to update in place, give the new value another name "
     "and pass the same memory for both\n"
     "  Y[i] = X[i]; X[i] = Z[i]\n"
     "         ^"},
    {"Y[i] = Y[i] + 1",
     "1:8: 'Y' is read in the statement that writes it; to update in place, give the new value another name "
     "and pass the same memory for both\n"
     "  Y[i] = Y[i] + 1\n"
     "         ^"},
    {"G[ids[i]] += G[i]",
     "1:14: 'G' is read in the statement that writes it; to update in place, give the new value another name "
     "and pass the same memory for both\n"
     "  G[ids[i]] += G[i]\n"
     "               ^"},
    {"Y[i,i] = X[i]",
     "1:5: index 'i' stands twice on the left side\n"
     "  Y[i,i] = X[i]\n"
     "      ^"},
    {"Y[2*i] = X[i]",
     "1:4: a subscript on the left side is an index or reads a tensor of indices\n"
     "  Y[2*i] = X[i]\n"
     "     ^"},
    {"Y[0] = X[0]",
     "1:3: a subscript on the left side is an index or reads a tensor of indices\n"
     "  Y[0] = X[0]\n"
     "    ^"},
    {"let t[i] = X[i]",
     "the formula has no output: every statement is a let"},
    {"scalar lr",
     "the formula has no statement"},
    {"# nothing",
     "the formula has no statement"},
    {"let t[ids[i]] = X[i]; Y[i] = t[i]",
     "1:7: a let cannot be scattered into: its other elements would have no value\n"
     "  let t[ids[i]] = X[i]; Y[i] = t[i]\n"
     "        ^"},
    {"let t[i] += X[i]; Y[i] = t[i]",
     "1:5: a let is assigned with '='\n"
     "  let t[i] += X[i]; Y[i] = t[i]\n"
     "      ^"},
    {"scalar n; Y[i] = X[i + n]",
     "1:24: scalar 'n' in a subscript of 'X': where an element lies may not depend on scalars\n"
     "  scalar n; Y[i] = X[i + n]\n"
     "                         ^"},
    {"scalar i; Y[i] = X[i]",
     "1:13: 'i' is a scalar and cannot be an index\n"
     "  scalar i; Y[i] = X[i]\n"
     "              ^"},
    {"scalar k; Y[i] = sum[k](X[i,k])",
     "1:22: 'k' is a scalar and cannot be an index\n"
     "  scalar k; Y[i] = sum[k](X[i,k])\n"
     "                       ^"},
    {"scalar a, a; Y[i] = X[i]",
     "1:11: scalar 'a' is declared twice\n"
     "  scalar a, a; Y[i] = X[i]\n"
     "            ^"},
    {"scalar X; Y[i] = X[i]",
     "1:18: 'X' is a scalar and has no indices\n"
     "  scalar X; Y[i] = X[i]\n"
     "                   ^"},
    {"Y[i] = X[i]; scalar X",
     "1:21: 'X' is a tensor already\n"
     "  Y[i] = X[i]; scalar X\n"
     "                      ^"},
    {"scalar a:i32; Y[i] = X[i] * a",
     "1:10: a scalar is f32, f64 or i64, not i32\n"
     "  scalar a:i32; Y[i] = X[i] * a\n"
     "           ^"},
    {"scalar max; Y[i] = X[i]",
     "1:8: 'max' is a word of the language and cannot name a scalar\n"
     "  scalar max; Y[i] = X[i]\n"
     "         ^"},
    {"max[i] = X[i]",
     "1:1: 'max' is a word of the language and cannot name a tensor\n"
     "  max[i] = X[i]\n"
     "  ^"},
    {"f32[i] = X[i]",
     "1:1: 'f32' is a word of the language and cannot name a tensor\n"
     "  f32[i] = X[i]\n"
     "  ^"},
    {"Y[inf] = X[i]",
     "1:3: a subscript of 'Y' must be an integer, not f32\n"
     "  Y[inf] = X[i]\n"
     "    ^"},
    {"Y[i] = sum[exp](X[i])",
     "1:12: 'exp' is a word of the language and cannot name an index\n"
     "  Y[i] = sum[exp](X[i])\n"
     "             ^"},
    {"Y[i] = sum[k](X[i,k] * sum[k](X[i,k]))",
     "1:28: index 'k' is bound already; give this one another name\n"
     "  Y[i] = sum[k](X[i,k] * sum[k](X[i,k]))\n"
     "                             ^"},
    {"Y[i] = sum[k,k](X[i,k])",
     "1:14: index 'k' is bound already; give this one another name\n"
     "  Y[i] = sum[k,k](X[i,k])\n"
     "               ^"},
    {"Y[i] = sum(X[i])",
     "1:8: 'sum' needs the index it runs over: sum[k](..)\n"
     "  Y[i] = sum(X[i])\n"
     "         ^"},
    {"Y[i] = sum[k]()",
     "1:8: 'sum' has no operand\n"
     "  Y[i] = sum[k]()\n"
     "         ^"},
    {"Y[i] = sum[k](X[i,k], fast)",
     "1:23: 'sum' takes one operand\n"
     "  Y[i] = sum[k](X[i,k], fast)\n"
     "                        ^"},
    {"Y[i] = var[k](X[i,k], biased)",
     "1:23: 'var' takes one operand, then the option 'unbiased'\n"
     "  Y[i] = var[k](X[i,k], biased)\n"
     "                        ^"},
    {"Y[i] = cumsum[i](X[i], unbiased)",
     "1:24: 'cumsum' takes one operand, then the options 'exclusive' and 'reverse'\n"
     "  Y[i] = cumsum[i](X[i], unbiased)\n"
     "                         ^"},
    {"Y[i] = cumsum[j](X[i,j])",
     "1:15: 'cumsum' runs along an index of the left side; 'j' is not one\n"
     "  Y[i] = cumsum[j](X[i,j])\n"
     "                ^"},
    {"Y[i] = sum[j](cumsum[j](X[i,j]))",
     "1:22: 'cumsum' runs along an index of the left side; 'j' is bound by a reduction\n"
     "  Y[i] = sum[j](cumsum[j](X[i,j]))\n"
     "                       ^"},
    {"Y[i] = cumsum[i](cumsum[i](X[i]))",
     "1:25: a scan along 'i' stands around this one already; use let\n"
     "  Y[i] = cumsum[i](cumsum[i](X[i]))\n"
     "                          ^"},
    {"Y[i,j] = cumsum[i,j](X[i,j])",
     "1:19: 'cumsum' runs along one index\n"
     "  Y[i,j] = cumsum[i,j](X[i,j])\n"
     "                    ^"},
    {"Y[i] = argmax[j,k](X[i,j,k])",
     "1:17: 'argmax' runs over one index\n"
     "  Y[i] = argmax[j,k](X[i,j,k])\n"
     "                  ^"},
    {"Y[i] = X[argmax[j](X[j])]",
     "1:10: 'argmax' in a subscript of 'X'; name its result with let first\n"
     "  Y[i] = X[argmax[j](X[j])]\n"
     "           ^"},
    {"Y[i] = X[1.5]",
     "1:10: a subscript of 'X' must be an integer, not f32\n"
     "  Y[i] = X[1.5]\n"
     "           ^"},
    {"Y[i] = X[i / 2]",
     "1:12: a subscript of 'X' must be an integer, not f32; integers divide with '//'\n"
     "  Y[i] = X[i / 2]\n"
     "             ^"},
    {"Y[i] = X[i * i]",
     "1:12: a subscript multiplies by constants and static sizes only\n"
     "  Y[i] = X[i * i]\n"
     "             ^"},
    {"Y[i] = X[i // 0]",
     "1:12: a subscript divides by a positive constant or static size only\n"
     "  Y[i] = X[i // 0]\n"
     "             ^"},
    {"Y[i] = X[i % i]",
     "1:12: a subscript divides by a positive constant or static size only\n"
     "  Y[i] = X[i % i]\n"
     "             ^"},
    {"Y[i] = X[max(i - 1, 0)]",
     "1:10: 'max' in a subscript that reads no tensor; it may use + - * // % only\n"
     "  Y[i] = X[max(i - 1, 0)]\n"
     "           ^"},
    {"Y[i] = X[i32(i)]",
     "1:10: a conversion in a subscript that reads no tensor\n"
     "  Y[i] = X[i32(i)]\n"
     "           ^"},
    {"Y[i] = X[i == 1]",
     "1:12: a subscript of 'X' must be an integer, not bool\n"
     "  Y[i] = X[i == 1]\n"
     "             ^"},
    {"Y[i] = exp(X[i], 1)",
     "1:8: 'exp' takes 1 operand, not 2\n"
     "  Y[i] = exp(X[i], 1)\n"
     "         ^"},
    {"Y[i] = where(X[i], 1)",
     "1:8: 'where' takes 3 operands, not 2\n"
     "  Y[i] = where(X[i], 1)\n"
     "         ^"},
    {"Y[i] = X(i)",
     "1:8: unknown function 'X'\n"
     "  Y[i] = X(i)\n"
     "         ^"},
    {"Y[i] = exp[i]",
     "1:8: 'exp' is a word of the language and cannot name a tensor\n"
     "  Y[i] = exp[i]\n"
     "         ^"},
    {"Y[i] = exp + 1",
     "1:8: 'exp' needs its operands in parentheses\n"
     "  Y[i] = exp + 1\n"
     "         ^"},
    {"Y[i] = size(q) * X[i]",
     "1:13: size of 'q', which is no index of the formula\n"
     "  Y[i] = size(q) * X[i]\n"
     "              ^"},
    {"Y[i] = size(X.3) * X[i]",
     "1:13: axis 3 of 'X', whose axes are counted from 0 and are 1\n"
     "  Y[i] = size(X.3) * X[i]\n"
     "              ^"},
    {"Y[i] = size(Q.0) * X[i]",
     "1:13: no tensor is named 'Q'\n"
     "  Y[i] = size(Q.0) * X[i]\n"
     "              ^"},
    {"Y[i] = size(3) * X[i]",
     "1:13: expected an index name before '3'\n"
     "  Y[i] = size(3) * X[i]\n"
     "              ^"},
    {"Y[i] = sum[r](X[i + r])",
     "1:12: no tensor has an axis indexed by just 'r', so its size is not known; give it, as in sizes \"r=3\"\n"
     "  Y[i] = sum[r](X[i + r])\n"
     "             ^"},
    {"Y[i] = sum[r](X[i + r]) + bias[i",
     "1:33: expected ',' or ']', but the formula ends here\n"
     "  Y[i] = sum[r](X[i + r]) + bias[i\n"
     "                                  ^"},
    {"size n=3; Y[i] = X[i]",
     "1:6: the formula has no dim 'n'; it has i\n"
     "  size n=3; Y[i] = X[i]\n"
     "       ^"},
    {"size i=3..2; Y[i] = X[i]",
     "1:6: the range of 'i' is empty\n"
     "  size i=3..2; Y[i] = X[i]\n"
     "       ^"},
    {"size i=3, i=4; Y[i] = X[i]",
     "1:11: 'i' is given two sizes that exclude each other\n"
     "  size i=3, i=4; Y[i] = X[i]\n"
     "            ^"},
    {"size i; Y[i] = X[i]",
     "1:7: expected '=' before ';'\n"
     "  size i; Y[i] = X[i]\n"
     "        ^"},
    {"Y[i] = a == not X[i]",
     "1:13: 'not' needs parentheses here\n"
     "  Y[i] = a == not X[i]\n"
     "              ^"},
    {"Y[i] = 1.5.2",
     "1:11: expected an operator or ';' before '.2'\n"
     "  Y[i] = 1.5.2\n"
     "            ^"},
    {"Y[a,b,c,d,e,f,g,h,i] = 1",
     "1:19: a tensor has at most 8 axes\n"
     "  Y[a,b,c,d,e,f,g,h,i] = 1\n"
     "                    ^"},
    {"Y[i] = X[i] if X[i]",
     "1:13: expected an operator or ';' before 'if'\n"
     "  Y[i] = X[i] if X[i]\n"
     "              ^"},
    {"let = 3",
     "1:5: expected a name before '='\n"
     "  let = 3\n"
     "      ^"},
    {"Y[i] = let",
     "1:8: expected an expression before 'let'\n"
     "  Y[i] = let\n"
     "         ^"},
    {"\tY[i] = X[i] $",
     "1:14: unexpected character '$'\n"
     "   Y[i] = X[i] $\n"
     "               ^"},
    {"Y[] = true and",
     "1:15: expected an expression, but the formula ends here\n"
     "  Y[] = true and\n"
     "                ^"},
    {"Y[i] = X[i]; let",
     "1:17: expected a name, but the formula ends here\n"
     "  Y[i] = X[i]; let\n"
     "                  ^"},
    {"Y[i] = X[i]; 3",
     "1:14: expected a statement before '3'\n"
     "  Y[i] = X[i]; 3\n"
     "               ^"},
    {"scalar 3; Y[i] = X[i]",
     "1:8: expected a name before '3'\n"
     "  scalar 3; Y[i] = X[i]\n"
     "         ^"},
    {"scalar a b; Y[i] = X[i]",
     "1:10: expected ',' or ';' before 'b'\n"
     "  scalar a b; Y[i] = X[i]\n"
     "           ^"},
    {"size 3=4; Y[i] = X[i]",
     "1:6: expected the name of a dim before '3'\n"
     "  size 3=4; Y[i] = X[i]\n"
     "       ^"},
    {"size i=x; Y[i] = X[i]",
     "1:8: expected a size before 'x'\n"
     "  size i=x; Y[i] = X[i]\n"
     "         ^"},
    {"size i=3 4; Y[i] = X[i]",
     "1:10: expected ',' or ';' before '4'\n"
     "  size i=3 4; Y[i] = X[i]\n"
     "           ^"},
    {"size E.x=3; Y[i] = X[i]",
     "1:8: expected an axis number before 'x'\n"
     "  size E.x=3; Y[i] = X[i]\n"
     "         ^"},
    {"Y:[i] = X[i]",
     "1:3: expected a dtype before '['\n"
     "  Y:[i] = X[i]\n"
     "    ^"},
    {"Y:f32 = X[i]",
     "1:7: expected '[' before '='\n"
     "  Y:f32 = X[i]\n"
     "        ^"},
    {"Y[i] = sum[3](X[i])",
     "1:12: expected an index name before '3'\n"
     "  Y[i] = sum[3](X[i])\n"
     "             ^"},
    {"Y[i] = sum[k X[i])",
     "1:14: expected ',' or ']' before 'X'\n"
     "  Y[i] = sum[k X[i])\n"
     "               ^"},
    {"Y[i] = sum[k] X[i]",
     "1:15: expected '(' before 'X'\n"
     "  Y[i] = sum[k] X[i]\n"
     "                ^"},
    {"Y[i] = size(X.i)",
     "1:15: expected an axis number before 'i'\n"
     "  Y[i] = size(X.i)\n"
     "                ^"},
    {"Y[i] = true[i]",
     "1:8: 'true' is a word of the language and cannot name a tensor\n"
     "  Y[i] = true[i]\n"
     "         ^"},
    {"Y[i] = X[i] * (1 or)",
     "1:20: expected an expression before ')'\n"
     "  Y[i] = X[i] * (1 or)\n"
     "                     ^"},
    {"Y[i] = X[n_tensors_have_axes_and_names_no_longer_than_sixty_three_characters]",
     "1:10: a name of 67 characters; the longest allowed is 63\n"
     "  Y[i] = X[n_tensors_have_axes_and_names_no_longer_than_sixty_three_characters]\n"
     "           ^"},
};
/* clang-format on */

static void test_goldens(void **state)
{
    (void)state;
    int n_wrong = 0;
    for (size_t i = 0; i < sizeof goldens / sizeof goldens[0]; ++i) {
        md_fx_formula *f = NULL;
        const md_status status = md_fx_formula_create(&f, goldens[i].formula, NULL);
        const char *const message = status == MD_OK ? "no error" : md_last_error();
        if (status == MD_INVALID_ARGUMENT && strcmp(message, goldens[i].message) == 0 && !f)
            continue;
        ++n_wrong;
        print_error("--- %s\ngot:    %s\nwanted: %s\n", goldens[i].formula, message, goldens[i].message);
        md_fx_formula_destroy(&f);
    }
    assert_int_equal(n_wrong, 0);
}

/* Options: messages without a place in the formula. */
static void test_options(void **state)
{
    (void)state;
    static const struct {
        md_fx_options options;
        const char *message;
    } cases[] = {
        {{.sizes = "q=3"}, "sizes: the formula has no dim 'q'; it has row, col"},
        {{.sizes = "rwo=3"}, "sizes: the formula has no dim 'rwo'; it has row, col; did you mean 'row'?"},
        {{.sizes = "row=3, row=4"}, "sizes: 'row' is given two sizes that exclude each other"},
        {{.sizes = "row=3..5, row=6..7"}, "sizes: 'row' is given two sizes that exclude each other"},
        {{.sizes = "row=-3"}, "sizes: 'row' is negative"},
        {{.sizes = "row"}, "sizes \"row\": expected '=' at the end"},
        {{.dtype = MD_I8}, "dtype 9 (i8) cannot be computed with"},
        {{.dtype = (md_dtype)77}, "dtype 77 (?) cannot be computed with"},
        {{.bounds = (md_bounds)3}, "bounds is 3; it is report, clamp or zero"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        md_fx_formula *f = NULL;
        assert_int_equal(md_fx_formula_create(&f, "Y[row,col] = X[row,col]", &cases[i].options), MD_INVALID_ARGUMENT);
        assert_string_equal(md_last_error(), cases[i].message);
        assert_null(f);
    }
    md_fx_formula *f = NULL;
    assert_fails(md_fx_formula_create(&f, NULL, NULL), MD_INVALID_ARGUMENT, "the formula is NULL");
    assert_fails(md_fx_formula_create(NULL, "Y[] = 1", NULL), MD_INVALID_ARGUMENT, "the result's address is NULL");
}

/* The caret stays in sight and under its column on long lines, on later lines, behind tabs and beyond ASCII. */
static void test_carets(void **state)
{
    (void)state;
    md_strbuf b = {0};
    md_fx_formula *f = NULL;
    md_strbuf_add(&b, "Y[i] = X[i]");
    for (int i = 0; i < 40; ++i)
        md_strbuf_add(&b, " + X[i]");
    md_strbuf_add(&b, " + bad;\nZ[i] = X[i]");
    assert_int_equal(md_fx_formula_create(&f, md_strbuf_text(&b), NULL), MD_INVALID_ARGUMENT);
    assert_string_equal(md_last_error(),
                        "1:295: unknown name 'bad'; a tensor needs its indices, a parameter 'scalar bad;'\n"
                        "  ...X[i] + X[i] + X[i] + X[i] + X[i] + X[i] + X[i] + bad;\n"
                        "                                                      ^");
    md_strbuf_finish(&b);
    assert_int_equal(md_fx_formula_create(&f, "# \xc3\xbcn\xc3\xaf\n\tY[i] = # \xc3\xbc\n  bad\n;", NULL),
                     MD_INVALID_ARGUMENT);
    assert_string_equal(md_last_error(),
                        "3:3: unknown name 'bad'; a tensor needs its indices, a parameter 'scalar bad;'\n"
                        "    bad\n"
                        "    ^");
    assert_int_equal(md_fx_formula_create(&f, "Y[i] = X[i] \xc3\xbc", NULL), MD_INVALID_ARGUMENT);
    assert_string_equal(md_last_error(), "1:13: unexpected character 0xc3\n"
                                         "  Y[i] = X[i] \xc3\xbc\n"
                                         "              ^");
}

/* ---- limits: a message, never a crash ---- */

static void check_repeated(const char *head, const char *part, int n, const char *tail, const char *message)
{
    md_strbuf b = {0};
    md_fx_formula *f = NULL;
    md_strbuf_add(&b, head);
    for (int i = 0; i < n; ++i) {
        for (const char *c = part; *c; ++c)
            if (*c == '@')
                md_strbuf_printf(&b, "%d", i);
            else
                md_strbuf_bytes(&b, c, 1);
    }
    md_strbuf_add(&b, tail);
    assert_false(b.failed);
    const md_status status = md_fx_formula_create(&f, md_strbuf_text(&b), NULL);
    if (message)
        assert_true(status == MD_INVALID_ARGUMENT && strstr(md_last_error(), message));
    else
        assert_ok(status);
    md_fx_formula_destroy(&f);
    md_strbuf_finish(&b);
}

static void test_limits(void **state)
{
    (void)state;
    const char *const deep = "the expression is nested more than 200 deep; use let";
    check_repeated("Y[i] = ", "(", 190, "X[i]", "expected ')'");
    check_repeated("Y[i] = ", "(", 100000 / 2, "X[i]", deep);
    check_repeated("Y[i] = ", "-", 60000, "X[i]", deep);
    check_repeated("Y[i] = ", "not ", 10000, "X[i]", deep);
    check_repeated("Y[i] = ", "exp(", 10000, "X[i]", deep);
    check_repeated("Y[i] = ", "X[", 10000, "i", deep);
    check_repeated("Y[i] = X[i]", " + 1", 190, "", NULL);
    check_repeated("Y[i] = X[i]", " + 1", 10000, "", deep);
    check_repeated("Y[i] = max(X[i]", ", 1", 1000, ")", "too many operands");
    check_repeated("Y[i] = X[i]; ", "Z@[i] = X[i]; ", 31, "", "more than 32 tensors");
    check_repeated("", "let t@[i] = X[i]; ", 30, "Y[i] = X[i]", NULL);
    check_repeated("scalar a", ", s@", 16, "; Y[i] = X[i]", "more than 16 scalars");
    check_repeated("scalar a", ", s@", 70, "; Y[i] = X[i]", "more than 64 declarations in one statement");
    check_repeated("", "let t@[] = 1; ", 200, "", "more than 96 statements");
    check_repeated("", "scalar s@; ", 200, "", "more than 96 statements");
    check_repeated("Y[i] = X[i]", " + sum[k@](X[k@])", 96, "", "more than 96 indices");
    check_repeated("Y[i] = X[i]", "", 0, "; Z[a,b,c,d,e,f,g,h] = S[a,b,c,d,e,f,g,h]", NULL);
    check_repeated("Y[i] = X[0,0,0,0,0,0,0,0]", " + A@[i,0,0,0,0,0,0,0]", 8, "", "more than 48 dims");
    check_repeated("scalar a0", ", s@", 15, "; Y[i] = X[i]; Z[i] = X[i]", NULL);
    check_repeated("scalar a0,b0,c0,d0,e0,f0; Y[i] = X[i]", " + A@[i]", 26, "", "more than 32 arguments");
    check_repeated("Y[", "i@", 7000, "] = 1", "the longest allowed is 63");
    check_repeated("Y[i] = ", "                ", 5000, "1", "the longest allowed is 65536");
    check_repeated("Y[i] = sum[a", ",b@", 8, "](X[i])", "at most 8 indices can be bound at once");
    check_repeated("Y[i] = 0.", "0", 20000, "1 * X[i]", NULL);
    check_repeated("Y[i] = 1", "0", 20000, ".5 * X[i]", "too large");
    check_repeated("G[p[a,b,c,d,e,f,g,h], q[a0,b0,c0,d0,e0,f0,g0,h0], r[", "z", 1, "]] += 1",
                   "more than 16 indices on the left side");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_carets),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
