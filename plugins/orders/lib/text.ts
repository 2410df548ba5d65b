/** Pattern of what a TEXT column can hold: anything but NUL. */
export const TEXT = '^[^\\u0000]*$'
