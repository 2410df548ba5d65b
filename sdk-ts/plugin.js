// There is nothing here at run time: what plugins import from '@oncehost/sdk/plugin' are types.
export {}
