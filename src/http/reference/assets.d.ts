/** wrangler bundles files with this ending as data. */
declare module "*.bin" {
  const bytes: ArrayBuffer;
  export default bytes;
}
