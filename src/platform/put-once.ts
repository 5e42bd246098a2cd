export type OnceBucket = Pick<R2Bucket, "put" | "head">;

/** Puts an object, or leaves the one that is there. R2 may throw for a locked key that exists. */
export async function putOnce(
  bucket: OnceBucket,
  key: string,
  value: Uint8Array<ArrayBuffer> | string,
  options: Omit<R2PutOptions, "onlyIf">,
): Promise<void> {
  const onlyIf = new Headers({ "if-none-match": "*" });
  try {
    await bucket.put(key, value, { ...options, onlyIf });
  } catch (error) {
    const found = await bucket.head(key).catch(() => null);
    if (found === null) throw error;
  }
}
