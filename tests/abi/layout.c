/* Prints the size of every public struct and the offset and size of every field, and fails when a field is missing from
 * layout.def: the listed fields must tile each struct, padding for alignment apart.
 * SPDX-License-Identifier: Apache-2.0 */
#ifdef QUERN_TEST_DLPACK
#include QUERN_TEST_DLPACK
#endif
#include <stdio.h>
#include <string.h>

#include "quern.h"

typedef struct {
  const char *structure;
  const char *field; /* NULL: the struct itself */
  size_t offset;
  size_t size;
} layout_row;

static const layout_row rows[] = {
#define QUERN_STRUCT(name) {#name, NULL, 0, sizeof(name)},
#define QUERN_FIELD(name, field) {#name, #field, offsetof(name, field), sizeof(((name *)0)->field)},
#include "layout.def"
};

/* Padding before a field is less than the largest alignment of any field, and only after a smaller one. */
static int is_padding(size_t end, size_t next) {
  return next >= end && next - end < 8 && (next == end || next % 8 == 0);
}

int main(void) {
  const size_t count = sizeof(rows) / sizeof(rows[0]);
  int holes = 0;
  size_t end = 0;
  size_t whole = 0;
  for (size_t i = 0; i < count; ++i) {
    const layout_row *row = &rows[i];
    if (row->field == NULL) {
      printf("%s %zu\n", row->structure, row->size);
      whole = row->size;
      end = 0;
    } else {
      printf("  %zu %zu %s\n", row->offset, row->size, row->field);
      if (!is_padding(end, row->offset)) {
        fprintf(stderr, "%s: something lies between byte %zu and field %s at %zu\n", row->structure, end, row->field,
                row->offset);
        ++holes;
      }
      end = row->offset + row->size;
    }
    if (i + 1 == count || rows[i + 1].field == NULL) {
      if (!is_padding(end, whole)) {
        fprintf(stderr, "%s: something lies between byte %zu and its end at %zu\n", row->structure, end, whole);
        ++holes;
      }
    }
  }
  return holes == 0 ? 0 : 1;
}
