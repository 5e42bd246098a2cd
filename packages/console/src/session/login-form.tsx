import { Problem } from "@rfq-custody/client";
import { type ComponentProps, useState } from "react";
import { CodeField, Form, type FormValues } from "../ui/form.tsx";

/** Asks for a code once the service has asked for one. */
export function LoginForm({ submit, children, ...form }: ComponentProps<typeof Form>) {
  const [needsCode, setNeedsCode] = useState(false);
  const logIn = (values: FormValues) =>
    submit(values).catch((error: unknown) => {
      if (error instanceof Problem && error.code.startsWith("totp_")) setNeedsCode(true);
      throw error;
    });
  return (
    <Form {...form} submit={logIn}>
      {children}
      {needsCode ? <CodeField recovery /> : null}
    </Form>
  );
}
