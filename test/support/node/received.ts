/** What a receiver got. */
export type Received = {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Unix milliseconds */
  readonly at: number;
};

declare module "vitest" {
  interface ProvidedContext {
    /** Of receiver.setup.ts. */
    receiverUrl: string;
  }
}
