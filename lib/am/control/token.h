// What lets one attach over TCP: a secret of the job's own, shown by proving that one knows it.
//
//   const Token token = Token::make();               // the job; text() goes into a file of 0600
//   token.proof("job", nonces)                       // to who asks
//   token.proves("client", nonces, theirs)           // whether the other end knows it too
//
// Both ends draw a nonce for each connection. A proof is a keyed hash (HMAC-SHA-512-256,
// libsodium's crypto_auth) of who proves and of both, so the secret never travels, and what was
// overheard opens nothing. What is said afterwards is not encrypted: `ssh -L` does that.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>

namespace am::control {

// Of one connection, in hexadecimal digits.
struct Nonces {
  std::string client;
  std::string job;
};

class Token {
 public:
  // Of the system's random numbers.
  static Token make();
  // Throws Error(kIo) for a file that cannot be read or that others may read, Error(kFormat) for
  // one that holds no token.
  static Token read(const std::filesystem::path& file);

  // 64 hexadecimal digits: the secret itself.
  std::string text() const;
  // `who`: "job" or "client".
  std::string proof(std::string_view who, const Nonces& nonces) const;
  // In a time that does not tell how much of it is right.
  bool proves(std::string_view who, const Nonces& nonces, std::string_view proof) const;

 private:
  Token() = default;

  std::array<unsigned char, 32> secret_ = {};
};

// 64 hexadecimal digits that nobody has drawn before.
std::string draw_nonce();
bool is_nonce(std::string_view text);

}  // namespace am::control
